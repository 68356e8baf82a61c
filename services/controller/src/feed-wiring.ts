/** Part of the composition root: who learns of what other controllers write. */
import type { NodeRegistry } from "./nodes/node-registry-model.ts";
import type { LearnedLimits } from "./records/attachment/learned-limits.ts";
import type { ChangeFeedDeps, Told } from "./records/change-feed.ts";
import { type Changes, nodeChangeKey } from "./records/changes.ts";
import type { PluginRecords } from "./records/plugin-records.ts";
import type { VolumeRecords } from "./records/volume/volume-records.ts";

export interface FeedParts {
  readonly records: VolumeRecords;
  readonly registry: NodeRegistry;
  readonly pluginRecords: PluginRecords;
  readonly secrets: { readonly changed: ChangeFeedDeps["secretChanged"]; readonly forgetAll: () => void };
  readonly learnedLimits: LearnedLimits;
  readonly changes: Changes;
  /** Something of the volume was committed elsewhere: by another controller, or by a former life of this one. */
  readonly learned: (key: string, told: Told) => void;
  /** The same of a snapshot or a group of them. */
  readonly learnOfCut: ChangeFeedDeps["learnOfCut"];
  readonly inBackground: (what: string, task: Promise<unknown>) => void;
}

const nodeOf = (key: string): string | undefined =>
  key.startsWith(nodeChangeKey("")) ? key.slice(nodeChangeKey("").length) : undefined;

export const wireFeed = (
  deps: FeedParts,
): Pick<ChangeFeedDeps, "records" | "learnOfPlugin" | "learnOfLimit" | "learnOfCut" | "secretChanged" | "changes"> => {
  const { records, registry, pluginRecords, learnedLimits, secrets, changes, inBackground } = deps;
  return {
    records: {
      async learnOf(key, told) {
        await records.learnOf(key, told.rev, told.node);
        deps.learned(key, told);
      },
      forgetAll() {
        records.forgetAll();
        secrets.forgetAll();
        inBackground("reading the nodes again", registry.load());
        inBackground("reading the plugins again", pluginRecords.load());
        inBackground("reading the learned attach limits again", learnedLimits.load());
      },
    },
    learnOfPlugin: pluginRecords.learnOf,
    secretChanged: secrets.changed,
    learnOfLimit: learnedLimits.learnOf,
    learnOfCut: deps.learnOfCut,
    changes: {
      ...changes,
      publish(...keys) {
        for (const key of keys) {
          const node = nodeOf(key);
          const told = (): void => changes.publish(key);
          // A woken waiter looks at what is known of the node here: the reading comes first.
          if (node === undefined) told();
          else inBackground("learning of a node", registry.learnOf(node).finally(told));
        }
      },
    },
  };
};
