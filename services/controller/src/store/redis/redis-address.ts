import { ConfigError } from "@holdfast/shared/config/config-error";

export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly db: number;
  readonly tls: boolean;
  /** For logs and errors: without user and password. */
  readonly shown: string;
}

/** `redis://[user[:password]@]host[:port][/db]`, or `rediss://…` for TLS. */
export const parseRedisAddress = (url: string): RedisAddress => {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const db = Number(parsed?.pathname.slice(1) === "" ? "0" : parsed?.pathname.slice(1));
  if (
    parsed === undefined ||
    (parsed.protocol !== "redis:" && parsed.protocol !== "rediss:") ||
    parsed.hostname === "" ||
    !Number.isSafeInteger(db) ||
    db < 0
  )
    // The url is not repeated: it may hold a password.
    throw new ConfigError([
      { field: "store", description: "is no address of a Redis: redis://[user:password@]host[:port][/db]" },
    ]);
  const host = parsed.hostname.replace(/^\[|\]$/g, "");
  const port = parsed.port === "" ? 6379 : Number(parsed.port);
  return {
    host,
    port,
    username: parsed.username === "" ? undefined : decodeURIComponent(parsed.username),
    password: parsed.password === "" ? undefined : decodeURIComponent(parsed.password),
    db,
    tls: parsed.protocol === "rediss:",
    shown: `${parsed.protocol}//${parsed.hostname}:${port}/${db}`,
  };
};
