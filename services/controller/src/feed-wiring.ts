/** Part of the composition root: who learns of what other controllers write. */
import type { NodeRegistry } from "./nodes/node-registry-model.ts";
import type { AccessGrants } from "./records/access/access-grants.ts";
import type { LearnedLimits } from "./records/attachment/learned-limits.ts";
import type { ChangeFeedDeps, Told } from "./records/change-feed.ts";
import type { Changes } from "./records/changes.ts";
import type { PluginRecords } from "./records/plugin-records.ts";
import type { DenialRecords } from "./records/trust/denial-records.ts";
import type { VolumeRecords } from "./records/volume/volume-records.ts";

export interface FeedParts {
  readonly records: VolumeRecords;
  readonly registry: NodeRegistry;
  readonly pluginRecords: PluginRecords;
  readonly secrets: { readonly changed: ChangeFeedDeps["secretChanged"]; readonly forgetAll: () => void };
  readonly learnedLimits: LearnedLimits;
  readonly accessGrants: AccessGrants;
  readonly denials: DenialRecords;
  readonly changes: Changes;
  /** Something of the volume was committed elsewhere: by another controller, or by a former life of this one. */
  readonly learned: (key: string, told: Told) => void;
  /** The same of a snapshot or a group of them. */
  readonly learnOfCut: ChangeFeedDeps["learnOfCut"];
  readonly missed: ChangeFeedDeps["missed"];
}

export const wireFeed = (deps: FeedParts): Omit<ChangeFeedDeps, "store" | "clock" | "log" | "signal"> => {
  const { records, registry, pluginRecords, learnedLimits, accessGrants, denials, secrets, changes } = deps;
  return {
    records: {
      learnOf(key, told) {
        const forgotten = records.learnOf(key, told.rev, told.node);
        if (forgotten !== undefined) return forgotten.then(() => deps.learned(key, told));
        deps.learned(key, told);
        return undefined;
      },
    },
    async lookAgain() {
      records.forgetAll();
      secrets.forgetAll();
      const loading = [registry, pluginRecords, learnedLimits, accessGrants, denials].map((kept) => kept.load());
      await Promise.all(loading);
    },
    missed: deps.missed,
    learnOfPlugin: pluginRecords.learnOf,
    learnOfNode: registry.learnOf,
    secretChanged: secrets.changed,
    learnOfLimit: learnedLimits.learnOf,
    learnOfGrant: accessGrants.learnOf,
    learnOfDenial: denials.learnOf,
    learnOfCut: deps.learnOfCut,
    changes,
  };
};
