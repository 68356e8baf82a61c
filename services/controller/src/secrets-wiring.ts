/** The secrets' part of app.ts: where values come from, what keeps them, and who is woken when one changes. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import { createSecretCommands } from "./commands/secret-commands.ts";
import type { ControllerConfig } from "./config.ts";
import { type SecretName, secretKey } from "./domain/secret.ts";
import type { Ids, Store } from "./ports.ts";
import { createKeyFile } from "./secrets/key-file.ts";
import { createSealer } from "./secrets/sealer.ts";
import { createSecretRecords } from "./secrets/secret-records.ts";
import { createSecretUpkeep } from "./secrets/secret-upkeep.ts";
import { createSecrets } from "./secrets/secrets.ts";
import { createStoredSecrets } from "./secrets/stored-secrets.ts";
import { createVault } from "./secrets/vault.ts";

export interface SecretParts {
  readonly config: Pick<
    ControllerConfig,
    "secretKeys" | "vaultAddress" | "vaultTokenFile" | "vaultCaFile" | "vaultNamespace"
  >;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly store: Store;
  readonly clusterUid: () => Promise<string>;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Logger;
  /** A volume whose secret is another one now. */
  readonly wakeVolume: (key: string) => void;
}

const pageSize = 500;

export const createSecretParts = (parts: SecretParts) => {
  const { config, env, store, clusterUid, clock, ids, log, wakeVolume } = parts;
  const records = createSecretRecords({ store, ids });
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

  return {
    secrets: createSecrets({ env, stored, vault }),
    commands: createSecretCommands({ records, sealer, clock, changed }),
    upkeep: createSecretUpkeep({ records, sealer, clock, log }),
    changed,
    forgetAll: stored.forgetAll,
  };
};
