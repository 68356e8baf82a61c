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
}

/** As the settings of a controller name them. */
export interface AccessSettings {
  readonly storeCaFile?: string | undefined;
  readonly storeCertFile?: string | undefined;
  readonly storeKeyFile?: string | undefined;
  readonly storeServerName?: string | undefined;
}

export const accessOf = (settings: AccessSettings): RedisAccess => ({
  caFile: settings.storeCaFile,
  certFile: settings.storeCertFile,
  keyFile: settings.storeKeyFile,
  serverName: settings.storeServerName,
});

/** The setting behind each, for errors: nobody should have to guess which one is meant. */
export const accessSettings = {
  caFile: "HOLDFAST_STORE_CA_FILE",
  certFile: "HOLDFAST_STORE_CERT_FILE",
  keyFile: "HOLDFAST_STORE_KEY_FILE",
  serverName: "HOLDFAST_STORE_SERVER_NAME",
} as const satisfies Record<keyof RedisAccess, string>;

const isTls = (url: string): boolean => url.startsWith("rediss");

/** Throws with every setting that would be ignored, or is only half of what is needed. */
export const refuseUnfitAccess = (urls: readonly string[], access: RedisAccess): void => {
  const unfit: FieldViolation[] = [];
  for (const name of Object.keys(accessSettings) as (keyof RedisAccess)[])
    if (access[name] !== undefined && !urls.some(isTls))
      unfit.push({
        field: accessSettings[name],
        description: "is set, but no address of the store is rediss://…: use that, or leave the setting away",
      });
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
