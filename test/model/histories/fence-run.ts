/** One look of the product's keeper of fences at a node. */
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import type { Change } from "../../../services/controller/src/domain/change.ts";
import type { Inventory } from "../../../services/controller/src/domain/claim/permit.ts";
import type { Moment } from "../../../services/controller/src/domain/moment.ts";
import type { NodeRecord } from "../../../services/controller/src/domain/node/node.ts";
import type { VolumeRecord } from "../../../services/controller/src/domain/volume/volume.ts";
import type { NodeView } from "../../../services/controller/src/ports.ts";
import {
  createFenceKeeper,
  type FenceKeeperDeps,
} from "../../../services/controller/src/reconcile/node/fence-keeper.ts";
import { only } from "../search/only.ts";
import { wholeRecord } from "../volume/plain-record.ts";
import { settle } from "./awaited.ts";
import { silentLog } from "./gate-run.ts";
import type { PlainNode, StoredVolume } from "./history-types.ts";
import { plainNode } from "./plain-node.ts";
import { afterChange, momentNow } from "./step-run.ts";

export interface FenceInput {
  readonly view: NodeView;
  readonly volume: StoredVolume;
  /** Of the agent, if it is asked for and answers. */
  readonly inventory: Inventory | undefined;
}

export interface FenceOutput {
  readonly node?: PlainNode;
  readonly volume?: StoredVolume;
}

export const fenceRun = async ({ view, volume, inventory }: FenceInput): Promise<FenceOutput> => {
  const { record } = view;
  let stored = volume;
  let node: NodeRecord = record;
  const ending = new AbortController();
  const now = (): NodeView => ({ ...view, record: node });
  const keeper = createFenceKeeper({
    nodes: only<FenceKeeperDeps["nodes"]>("nodes", {
      get: now,
      list: () => [now()],
      onChange: () => () => undefined,
      change: async (_: string, decide: (record: NodeRecord) => NodeRecord) => {
        node = decide(node);
        return now();
      },
    }),
    records: only<FenceKeeperDeps["records"]>("records", {
      list: async () => ({ volumes: [{ volume: wholeRecord(stored.record), rev: 1 }] }),
      change: async (_: unknown, decide: (v: VolumeRecord, at: Moment) => Change) => {
        const before = wholeRecord(stored.record);
        const change = decide(before, momentNow);
        if (change.volume !== before) stored = afterChange(stored, change);
        return { volume: change.volume };
      },
    }),
    agents: {
      inventory: async () => {
        if (inventory === undefined) throw new Error("no answer");
        return inventory;
      },
    },
    gate: { state: () => ({ open: true, vetting: { gen: 1, uid: "" }, reason: "" }), onChange: () => () => undefined },
    wake: () => undefined,
    clock: createManualClock(),
    log: silentLog,
    signal: ending.signal,
  });
  const running = keeper.run().catch(() => undefined);
  await settle(Promise.race([running, new Promise((resolve) => setImmediate(resolve))]));
  await keeper.idle();
  ending.abort();
  const after = plainNode(node);
  return {
    ...(node === record ? {} : { node: after }),
    ...(stored === volume ? {} : { volume: stored }),
  };
};
