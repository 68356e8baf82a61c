/** What an agent holds against the records of a vetted store, by the product's own code, and what it notes before a store is vetted. */
import type { Vetting } from "@holdfast/model/vetting";
import type { Promised } from "../../../services/controller/src/agent-ports.ts";
import type { Change } from "../../../services/controller/src/domain/change.ts";
import type { Inventory } from "../../../services/controller/src/domain/claim/permit.ts";
import type { Moment } from "../../../services/controller/src/domain/moment.ts";
import type { VolumeRecord } from "../../../services/controller/src/domain/volume/volume.ts";
import type { NodeView } from "../../../services/controller/src/ports.ts";
import { noteForeignHolds } from "../../../services/controller/src/reconcile/node/foreign-holds.ts";
import { type InventoryDeps, reconcileInventory } from "../../../services/controller/src/reconcile/node/inventory.ts";
import type { VolumeRecords } from "../../../services/controller/src/records/volume/volume-records.ts";
import { only } from "../search/only.ts";
import { wholeRecord } from "../volume/plain-record.ts";
import { createAwaited, settle } from "./awaited.ts";
import { silentLog } from "./gate-run.ts";
import type { Controller, Order, PlainNode, StoredVolume, Trace } from "./history-types.ts";
import { wholeNode } from "./plain-node.ts";
import { afterChange, momentNow } from "./step-run.ts";

type Records = Pick<VolumeRecords, "get" | "ended" | "owner" | "list" | "change">;

/** The records of the one volume; `list` finds it as `listed` says. */
const recordsOf = (
  stored: () => StoredVolume,
  changed: (after: StoredVolume, vetted: boolean) => void,
  listed: () => StoredVolume,
) => {
  const versioned = ({ record }: StoredVolume) => ({ volume: wholeRecord(record), rev: 1 });
  return {
    get: async () => versioned(stored()),
    ended: async ({ uid }: { readonly uid: string }) => {
      const node = stored().ended[uid];
      return node === undefined ? undefined : { node };
    },
    owner: async () => undefined,
    list: async () => ({ volumes: [versioned(listed())] }),
    change: async (
      _: unknown,
      decide: (v: VolumeRecord, at: Moment) => Change,
      options: { readonly requiresVetted?: true } = {},
    ) => {
      const before = wholeRecord(stored().record);
      const change = decide(before, momentNow);
      const same = change.volume === before;
      if (!same) changed(afterChange(stored(), change), options.requiresVetted === true);
      return { volume: change.volume, rev: 1, ended: change.ended, changed: !same };
    },
  };
};

export const noteRun = async (node: PlainNode, inventory: Inventory, before: StoredVolume): Promise<StoredVolume> => {
  let after = before;
  const records = recordsOf(
    () => after,
    (next) => {
      after = next;
    },
    () => after,
  );
  await noteForeignHolds({ records: only<Records>("records", records), log: silentLog }, wholeNode(node), inventory);
  return after;
};

export interface CompareInput {
  readonly trace: Trace;
  readonly view: NodeView;
  readonly vetting: Vetting;
  /** As the store has the volume when it is compared, and the gate then; before that they are not asked for. */
  readonly later?: { readonly stored: StoredVolume; readonly gate: Pick<Controller, "open" | "vetting"> };
}

export interface CompareOutput {
  /** What it waits for. */
  readonly question?: "promise" | "expected" | "inventory" | "stored";
  readonly stored?: StoredVolume;
  /** Only a vetted store takes that. */
  readonly requiresVetted: boolean;
  readonly letGo: readonly Omit<Order, "instance">[];
  readonly failed?: true;
}

export const compareRun = async ({ trace, view, vetting, later }: CompareInput): Promise<CompareOutput> => {
  const { ask, questions } = createAwaited(trace);
  const letGo: Omit<Order, "instance">[] = [];
  let after = later?.stored;
  let requiresVetted = false;
  let failed = false;
  const now = (): StoredVolume => {
    if (after === undefined) throw new Error("the records are not asked for before the inventory has come");
    return after;
  };
  let [lists, looks] = [0, 0];
  const records = recordsOf(
    now,
    (next, vetted) => {
      after = next;
      requiresVetted ||= vetted;
    },
    now,
  );
  const waits = async <T>(run: () => Promise<T>): Promise<T> => {
    if (after === undefined) await ask("stored");
    return await run();
  };
  const deps: InventoryDeps = {
    records: only("records", {
      ...records,
      get: () => waits(records.get),
      change: (...args: Parameters<typeof records.change>) => waits(() => records.change(...args)),
      list: async () => {
        lists += 1;
        if (lists > 1) return await waits(records.list);
        const expected = await ask<StoredVolume>("expected");
        return { volumes: [{ volume: wholeRecord(expected.record), rev: 1 }] };
      },
    }),
    agents: only<InventoryDeps["agents"]>("agents", {
      promise: () => ask<Promised>("promise"),
      inventory: () => ask<Inventory>("inventory"),
      release: async ({ name }, { claimUid: claim, epoch, nodeEpoch: forEpoch }, { vetting: of }) => {
        letGo.push({ kind: "release", node: name, claim, epoch, oldest: epoch, forEpoch, vetting: of });
        return { kind: "pending", blocked: false, reason: "", message: "" };
      },
    } satisfies Partial<InventoryDeps["agents"]>),
    // Nobody attaches: what an agent holds is all that there is.
    plugins: only<InventoryDeps["plugins"]>("plugins", {
      facts: () => only<ReturnType<InventoryDeps["plugins"]["facts"]>>("facts", { attaches: "no" }),
    }),
    gate: {
      state: () => {
        looks += 1;
        // It began under an open gate.
        return { ...(looks === 1 || later === undefined ? { open: true, vetting } : later.gate), reason: "" };
      },
      onChange: () => () => undefined,
    },
    log: silentLog,
    signal: new AbortController().signal,
  };
  const running = reconcileInventory(deps, view).catch(() => {
    failed = true;
  });
  await settle(running);
  const [question] = questions;
  return {
    ...(question === undefined
      ? {}
      : { question: question.name.replace(/ \d+$/, "") as CompareOutput["question"] & string }),
    ...(after === undefined || after === later?.stored ? {} : { stored: after }),
    requiresVetted,
    letGo,
    ...(failed ? { failed: true as const } : {}),
  };
};
