/** What the address of a Redis does not say: the files of TLS, and the name that the server's certificate has to bear. */
import { ConfigError } from "@holdfast/shared/config/config-error";
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";

export interface RedisAccess {
  /** PEM of the authorities; without it, those of the system. */
  readonly caFile?: string | undefined;
  /** PEM of the client certificate with its chain, and of its key. */
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** In place of the host of the address. */
  readonly serverName?: string | undefined;
  /** What sentinels want to know, which have users of their own. */
  readonly sentinelLogin?: Login | undefined;
}

export interface Login {
  readonly username?: string;
  readonly password: string;
}

/** As the settings of a controller name them. */
export interface AccessSettings {
  readonly storeCaFile?: string | undefined;
  readonly storeCertFile?: string | undefined;
  readonly storeKeyFile?: string | undefined;
  readonly storeServerName?: string | undefined;
  readonly storeSentinelLogin?: string | undefined;
}

/** `user:password`, or `:password`; the password may hold any character. */
const loginOf = (text: string): Login => {
  const colon = text.indexOf(":");
  const password = text.slice(colon + 1);
  return colon < 1 ? { password } : { username: text.slice(0, colon), password };
};

export const accessOf = (settings: AccessSettings): RedisAccess => ({
  caFile: settings.storeCaFile,
  certFile: settings.storeCertFile,
  keyFile: settings.storeKeyFile,
  serverName: settings.storeServerName,
  ...(settings.storeSentinelLogin === undefined ? {} : { sentinelLogin: loginOf(settings.storeSentinelLogin) }),
});

/** The setting behind each, for errors: nobody should have to guess which one is meant. */
export const accessSettings = {
  caFile: "HOLDFAST_STORE_CA_FILE",
  certFile: "HOLDFAST_STORE_CERT_FILE",
  keyFile: "HOLDFAST_STORE_KEY_FILE",
  serverName: "HOLDFAST_STORE_SERVER_NAME",
  sentinelLogin: "HOLDFAST_STORE_SENTINEL_LOGIN",
} as const satisfies Record<keyof RedisAccess, string>;

const isTls = (url: string): boolean => url.startsWith("rediss");
const isSentinel = (url: string): boolean => /^rediss?\+sentinel:/.test(url);
const ofTls = ["caFile", "certFile", "keyFile", "serverName"] as const;

/** Throws with every setting that would be ignored, or is only half of what is needed. */
export const refuseUnfitAccess = (urls: readonly string[], access: RedisAccess): void => {
  const unfit: FieldViolation[] = [];
  const ignored = (name: keyof RedisAccess, wanted: string): void => {
    const description = `is set, but no address of the store is ${wanted}: use that, or leave the setting away`;
    if (access[name] !== undefined) unfit.push({ field: accessSettings[name], description });
  };
  if (!urls.some(isTls)) for (const name of ofTls) ignored(name, "rediss://…");
  if (!urls.some(isSentinel)) ignored("sentinelLogin", "redis+sentinel://…");
  for (const [half, other] of [
    ["certFile", "keyFile"],
    ["keyFile", "certFile"],
  ] as const)
    if (access[half] !== undefined && access[other] === undefined)
      unfit.push({
        field: accessSettings[other],
        description: `is not set, but ${accessSettings[half]} is: a client certificate needs both`,
      });
  if (unfit.length > 0) throw new ConfigError(unfit);
};
