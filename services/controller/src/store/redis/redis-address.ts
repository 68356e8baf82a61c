import { ConfigError } from "@holdfast/shared/config/config-error";
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";

export interface Place {
  readonly host: string;
  readonly port: number;
}

interface Common {
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly db: number;
  readonly tls: boolean;
  /** For logs and errors: without user and password. */
  readonly shown: string;
}

export interface ServerAddress extends Common {
  readonly kind: "server";
  readonly place: Place;
}

export interface SentinelAddress extends Common {
  readonly kind: "sentinel";
  /** Of the sentinels. */
  readonly places: readonly Place[];
  /** What they call the master. */
  readonly master: string;
}

export interface ClusterAddress extends Common {
  readonly kind: "cluster";
  /** Of some of its nodes. */
  readonly places: readonly Place[];
}

export type RedisAddress = ServerAddress | SentinelAddress | ClusterAddress;

const forms = [
  "redis://[user:password@]host[:port][/db]",
  "redis+sentinel://[user:password@]host[:port],host[:port],…/master-name[/db]",
  "redis+cluster://[user:password@]host[:port],host[:port],…",
].join(" or ");

const defaultPorts = { server: 6379, sentinel: 26379, cluster: 6379 } as const;

const placeOf = (text: string, defaultPort: number): Place | undefined => {
  const [, bracketed, plain, port = String(defaultPort)] =
    /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535) return undefined;
  return { host, port: Number(port) };
};

export const showPlace = ({ host, port }: Place): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
};

/** The words before the `@`; a password alone is that of the default user. */
const loginOf = (text: string) => {
  const colon = text.indexOf(":");
  const [user, password] = colon === -1 ? [text, ""] : [text.slice(0, colon), text.slice(colon + 1)];
  return { username: decoded(user), password: decoded(password) };
};

/** All that is wrong with it at once. Nothing of the text is repeated: it may hold a password. */
export const parseRedisAddress = (url: string): RedisAddress => {
  const wrong: FieldViolation[] = [];
  const complain = (description: string): void => void wrong.push({ field: "store", description });
  const [, scheme = "", of, userinfo = "", hosts = "", path = ""] =
    /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(?:([^/]*)@)?([^/@?#]+)(?:\/([^?#]*))?$/.exec(url) ?? [];
  if (scheme === "") throw new ConfigError([{ field: "store", description: `is no address of a Redis: ${forms}` }]);

  const kind = of === "sentinel" || of === "cluster" ? of : "server";
  const places = hosts.split(",").flatMap((text, at) => {
    const place = placeOf(text.trim(), defaultPorts[kind]);
    if (place === undefined) complain(`has no host[:port] as host ${at + 1} of ${hosts.split(",").length}: ${forms}`);
    return place ?? [];
  });
  if (kind === "server" && places.length > 1)
    complain(
      "has several hosts, and one Redis is one host: redis+sentinel://… names the sentinels of several, redis+cluster://… nodes",
    );

  const parts = path.split("/").filter((part) => part !== "");
  const master = kind === "sentinel" ? decoded(parts.shift() ?? "") : "";
  if (kind === "sentinel" && !/^[A-Za-z0-9._-]+$/.test(master ?? ""))
    complain("has no name of a master behind its sentinels, as in sentinel.conf: …:26379/master-name");
  const [db = "0", ...more] = parts;
  if (!/^\d{1,5}$/.test(db) || more.length > 0) complain(`has no number of a database at its end: ${forms}`);
  else if (kind === "cluster" && Number(db) !== 0)
    complain("has another database than 0, and in a cluster that one is used: leave it away");

  const { username, password } = loginOf(userinfo);
  if (username === undefined || password === undefined) complain("has a user or password that is not percent-encoded");
  const [place] = places;
  if (wrong.length > 0 || place === undefined) throw new ConfigError(wrong);

  const end = { server: `/${db}`, sentinel: `/${master}/${db}`, cluster: "" }[kind];
  const common = {
    username: username === "" ? undefined : username,
    password: password === "" ? undefined : password,
    db: Number(db),
    tls: scheme === "rediss",
    shown: `${scheme}${of === undefined ? "" : `+${of}`}://${places.map(showPlace).join(",")}${end}`,
  };
  if (kind === "server") return { kind, place, ...common };
  return kind === "sentinel" ? { kind, places, master: master ?? "", ...common } : { kind, places, ...common };
};
