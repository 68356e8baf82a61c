/** The secrets' part of app.ts: where values come from, what keeps them, and who is woken when one changes. */
import type { Clock } from "@holdfast/shared/async/clock";
import { ConfigError } from "@holdfast/shared/config/config-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { createSecretCommands } from "./commands/secret/secret-commands.ts";
import type { ControllerConfig } from "./config.ts";
import { type SecretName, secretKey } from "./domain/secret/secret.ts";
import { grantedPlace, type SecretGrants, type SecretScope } from "./domain/secret/secret-scope.ts";
import type { Ids, PluginProfiles, Store } from "./ports.ts";
import type { DamagedRecords } from "./records/damaged-records.ts";
import { createKeyFile } from "./secrets/key-file.ts";
import { forbiddenPlaces, unfitRoots } from "./secrets/root-check.ts";
import { createSealer } from "./secrets/sealer.ts";
import { createSecretRecords } from "./secrets/secret-records.ts";
import { createSecretUpkeep } from "./secrets/secret-upkeep.ts";
import { createSecrets, type SecretsOptions } from "./secrets/secrets.ts";
import { createStoredSecrets } from "./secrets/stored-secrets.ts";
import { createVault } from "./secrets/vault.ts";
import { createTokenParts } from "./token-wiring.ts";

export interface SecretParts {
  readonly config: Pick<
    ControllerConfig,
    | "secretKeys"
    | "secretFiles"
    | "secretEnv"
    | "secretVault"
    | "vaultAddress"
    | "vaultTokenFile"
    | "vaultCaFile"
    | "vaultNamespace"
    | "tokenKeys"
    | "tokenIssuer"
  >;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly store: Store;
  readonly damages: DamagedRecords;
  readonly profiles: Pick<PluginProfiles, "of">;
  readonly clusterUid: () => Promise<string>;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly onRead: SecretsOptions["onRead"];
  /** A volume whose secret is another one now. */
  readonly wakeVolume: (key: string) => void;
}

const pageSize = 500;

/** Before anything is written: a root of secrets that would open the controller's own files. */
export const refuseUnfitRoots = (config: ControllerConfig, env: SecretParts["env"]): void => {
  const unfit = unfitRoots({ files: config.secretFiles }, forbiddenPlaces({ ...config, env }));
  if (unfit.length > 0) throw new ConfigError(unfit);
};

export const createSecretParts = (parts: SecretParts) => {
  const { config, env, clusterUid, clock, log, wakeVolume } = parts;
  const records = createSecretRecords(parts);
  const sealer = createSealer({ keyFile: createKeyFile(config.secretKeys), clusterUid });
  const stored = createStoredSecrets({ records, sealer, clock });
  const vault = createVault({
    address: config.vaultAddress,
    tokenFile: config.vaultTokenFile,
    caFile: config.vaultCaFile,
    namespace: config.vaultNamespace,
  });

  const wakeUsers = async (name: SecretName): Promise<void> => {
    let after: string | undefined;
    do {
      const users = await records.users(name, undefined, pageSize, after);
      for (const { kind, key } of users) if (kind === "volume") wakeVolume(key);
      after = users.length < pageSize ? undefined : users.at(-1)?.key;
    } while (after !== undefined);
  };

  /** Heard of it here, or from another controller. */
  const changed = (name: SecretName): void => {
    stored.forget(secretKey(name));
    wakeUsers(name).catch((error: unknown) => {
      // They are tried again in time anyway.
      log.warn("who waits for a secret could not be woken", { secret: secretKey(name), error });
    });
  };

  const scope: SecretScope = { files: config.secretFiles, env: config.secretEnv, vault: config.secretVault };
  const granted: SecretGrants = (namespace, ref) => grantedPlace(scope, namespace, ref) !== undefined;

  const secrets = createSecrets({ scope, env, stored, vault, log, onRead: parts.onRead });
  return {
    secrets,
    tokens: createTokenParts({ ...parts, secrets }),
    commands: createSecretCommands({ records, sealer, clock, granted, changed }),
    upkeep: createSecretUpkeep({ records, sealer, clock, log }),
    changed,
    forgetAll: stored.forgetAll,
  };
};
