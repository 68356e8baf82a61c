/** Part of the composition root: who learns of what other controllers write. */
import type { NodeRegistry } from "./nodes/node-registry.ts";
import type { ChangeFeedDeps } from "./records/change-feed.ts";
import { type Changes, nodeChangeKey } from "./records/changes.ts";
import type { LearnedLimits } from "./records/learned-limits.ts";
import type { PluginRecords } from "./records/plugin-records.ts";
import type { VolumeRecords } from "./records/volume-records.ts";

export interface FeedParts {
  readonly records: VolumeRecords;
  readonly registry: NodeRegistry;
  readonly pluginRecords: PluginRecords;
  readonly secrets: { readonly changed: ChangeFeedDeps["secretChanged"]; readonly forgetAll: () => void };
  readonly learnedLimits: LearnedLimits;
  readonly changes: Changes;
  /** Another controller committed something of the volume. */
  readonly learned: (key: string) => void;
  readonly inBackground: (what: string, task: Promise<unknown>) => void;
}

const nodesAmong = (keys: readonly string[]): readonly string[] =>
  keys.filter((key) => key.startsWith(nodeChangeKey(""))).map((key) => key.slice(nodeChangeKey("").length));

export const wireFeed = (
  deps: FeedParts,
): Pick<ChangeFeedDeps, "records" | "learnOfPlugin" | "learnOfLimit" | "secretChanged" | "changes"> => {
  const { records, registry, pluginRecords, learnedLimits, secrets, changes, inBackground } = deps;
  return {
    records: {
      async learnOf(key, rev, node) {
        await records.learnOf(key, rev, node);
        deps.learned(key);
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
    changes: {
      ...changes,
      publish(...keys) {
        changes.publish(...keys);
        for (const name of nodesAmong(keys)) inBackground("learning of a node", registry.learnOf(name));
      },
    },
  };
};
