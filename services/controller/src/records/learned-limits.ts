/**
 * What plugins taught about nodes: RESOURCE_EXHAUSTED of ControllerPublishVolume says that the node takes no more than it has, whatever
 * NodeGetInfo told. It is stored, so that every controller knows, and ends by itself, so that the plugin is asked again: after a
 * while, and as soon as another instance of it, or another limit, is seen on the node. It is of one plugin on one machine, under the
 * name that the plugin has for it: a machine that has the node's name since is asked anew.
 */
import type { NodePlugin, NodeRecord } from "../domain/node.ts";
import { slotKey } from "../domain/slots.ts";
import type { Ids, Store } from "../ports.ts";
import { createDamagedRecords, type DamagedRecords } from "./damaged-records.ts";
import { recordReader } from "./record-reader.ts";
import { learnedLimitShape } from "./record-shapes.ts";

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
const pageSize = 500;
const rounds = 3;

const refOf = (slots: string) => ({ kind: "attach-limit", key: slots }) as const;

export const readLearnedLimit = recordReader<Learned>({ shape: learnedLimitShape, keyOf: ({ slots }) => slots });

export const createLearnedLimits = (deps: {
  readonly store: Pick<Store, "get" | "list" | "commit">;
  readonly ids: Pick<Ids, "uuid">;
  readonly now: () => number;
  readonly damages?: DamagedRecords;
}): LearnedLimits => {
  const { store, ids, now, damages = createDamagedRecords() } = deps;
  const known = new Map<string, Learned>();

  const take = (learned: Learned): void => void known.set(learned.slots, learned);

  /** The last word counts, whoever said it. */
  const write = async (slots: string, learned: Learned | undefined): Promise<void> => {
    const ref = refOf(slots);
    for (let round = 0; round < rounds; round += 1) {
      const before = await store.get(ref);
      if (before === undefined && learned === undefined) break;
      const { ok } = await store.commit({
        opId: ids.uuid(),
        writes: [
          {
            ref,
            expectedRev: before?.rev ?? 0,
            body: learned === undefined ? null : JSON.stringify(learned),
            indexes: [index],
            due: [],
            ttlMs: heldMs,
          },
        ],
        events: [{ type: "attach-limit", ref, body: JSON.stringify({ limit: learned?.limit ?? 0 }) }],
        requiresVetted: false,
      });
      if (ok) break;
    }
    if (learned === undefined) known.delete(slots);
    else take(learned);
  };

  return {
    async load() {
      known.clear();
      let after: string | undefined;
      do {
        const page = await store.list({ ...index, limit: pageSize, ...(after === undefined ? {} : { after }) });
        for (const learned of damages.readEach(page.records, readLearnedLimit)) take(learned);
        after = page.next;
      } while (after !== undefined);
    },
    async learnOf(slots) {
      const stored = await store.get(refOf(slots));
      if (stored === undefined) known.delete(slots);
      else take(damages.read(stored, readLearnedLimit));
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
      await write(slots, { slots, limit, until: now() + heldMs, machineId, nodeId, instance, maxVolumes });
    },
    async forget(plugin, node) {
      const slots = slotKey(plugin, node);
      if (known.has(slots)) await write(slots, undefined);
    },
  };
};
