/**
 * What plugins taught about nodes: RESOURCE_EXHAUSTED of ControllerPublishVolume says that the node takes no more than it has, whatever
 * NodeGetInfo told. It is stored, so that every controller knows, and ends by itself, so that the plugin is asked again: after a
 * while, and as soon as another instance of it, or another limit, is seen on the node. It is of one plugin on one machine, under the
 * name that the plugin has for it: a machine that has the node's name since is asked anew.
 */

import { slotKey } from "../../domain/attachment/slots.ts";
import type { NodePlugin, NodeRecord } from "../../domain/node/node.ts";
import type { AggregateRef } from "../../domain/store-types.ts";
import { changedAllTheTime } from "../commit-rounds.ts";
import { createRecordTable, type RecordTableDeps } from "../record-table.ts";
import { recordReader } from "../shape/record-reader.ts";
import { learnedLimitShape } from "../shape/record-shapes.ts";

export type NodeMachine = Pick<NodeRecord, "name" | "machineId">;

export interface LearnedLimits {
  /** Reads all of them: at the start, and when changes may have been missed. */
  load(): Promise<void>;
  /** Another controller wrote it. */
  learnOf(slots: string): Promise<void>;
  /** undefined = nothing was learned that still holds for this instance on this machine. */
  of(half: NodePlugin, node: NodeMachine): number | undefined;
  /** The plugin refused one more beside so many. */
  learn(half: NodePlugin, node: NodeMachine, limit: number): Promise<void>;
  /** It took more than was learned. */
  forget(plugin: string, node: string): Promise<void>;
}

interface Learned {
  readonly slots: string;
  readonly limit: number;
  readonly until: number;
  /** Who was asked: another instance, or another word of it, is asked anew. Of an older store without the machine: nobody. */
  readonly machineId?: string;
  readonly nodeId?: string;
  readonly instance: string;
  readonly maxVolumes: number;
}

const isOf = (learned: Learned, half: NodePlugin, { machineId }: NodeMachine): boolean =>
  learned.machineId === machineId &&
  learned.nodeId === half.nodeId &&
  learned.instance === half.instance &&
  learned.maxVolumes === half.maxVolumes;

/** How long nothing more is tried there. Long enough not to fail one workload after another, short enough for a wrong word. */
const heldMs = 10 * 60_000;
const index = { index: "limit-all", value: "all" } as const;

const refOf = (slots: string): AggregateRef => ({ kind: "attach-limit", key: slots });

export const readLearnedLimit = recordReader<Learned>({ shape: learnedLimitShape, keyOf: ({ slots }) => slots });

const noteOf = (limit: number): string => JSON.stringify({ limit });

export const createLearnedLimits = (deps: RecordTableDeps): LearnedLimits => {
  const { now } = deps.clock;
  const known = new Map<string, Learned>();

  const table = createRecordTable<string, Learned>(deps, {
    refOf,
    read: readLearnedLimit,
    encode: (learned) => ({ body: JSON.stringify(learned), indexes: [index], due: [], ttlMs: heldMs }),
    busy: (slots) => changedAllTheTime(`the limit that was learned of ${slots}`, { slots }),
    memory: {
      saw(slots, found) {
        if (found === undefined) known.delete(slots);
        else known.set(slots, found.record);
      },
    },
  });

  return {
    async load() {
      known.clear();
      for await (const page of table.pages(index)) for (const { record } of page) known.set(record.slots, record);
    },
    async learnOf(slots) {
      await table.look(slots);
    },
    of(half, node) {
      const slots = slotKey(half.name, node.name);
      const learned = known.get(slots);
      if (learned === undefined) return undefined;
      if (learned.until > now()) return isOf(learned, half, node) ? learned.limit : undefined;
      known.delete(slots);
      return undefined;
    },
    async learn(half, node, limit) {
      const slots = slotKey(half.name, node.name);
      const { nodeId, instance, maxVolumes } = half;
      const { machineId } = node;
      const record = { slots, limit, until: now() + heldMs, machineId, nodeId, instance, maxVolumes };
      // The last word counts, whichever controller says it.
      await table.change(slots, () => ({ record, note: noteOf(limit) }));
    },
    async forget(plugin, node) {
      const slots = slotKey(plugin, node);
      if (known.has(slots)) await table.change(slots, (found) => found && { record: null, note: noteOf(0) });
    },
  };
};
