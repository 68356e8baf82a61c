/** A look of a controller at its store, by the product's own code: from what was answered so far to the next questions, or to its end. */
import { judgeVetting, type Vetting } from "@holdfast/model/vetting";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createSilentLogger } from "@holdfast/shared/log/silent-logger";
import type { Promised } from "../../../services/controller/src/agent-ports.ts";
import type { Inventory } from "../../../services/controller/src/domain/claim/permit.ts";
import type { StoreIdentity } from "../../../services/controller/src/domain/store-types.ts";
import { compareInventory } from "../../../services/controller/src/gate/compare-inventory.ts";
import { createStoreGate } from "../../../services/controller/src/gate/store-gate.ts";
import { nothingLeft } from "../../../services/controller/src/gate/testing/nothing-left.ts";
import type { NodeView } from "../../../services/controller/src/ports.ts";
import { wholeRecord } from "../volume/plain-record.ts";
import { createAwaited, settle } from "./awaited.ts";
import type { StoredVolume, Trace } from "./history-types.ts";

export const silentLog = createSilentLogger();

/** The name that the store gives to a vetting that begins. */
export const freshVetting = "fresh";

export interface GateInput {
  readonly trace: Trace;
  readonly nodes: readonly NodeView[];
  readonly knows: readonly string[];
  /** The highest generation, and the nodes, that stand in its state directory. */
  readonly generation: number;
  readonly names: readonly string[];
  readonly vetting: Vetting;
}

export type GateQuestion =
  | { readonly name: string; readonly kind: "identity" }
  | { readonly name: string; readonly kind: "begin" | "mark"; readonly runId: string; readonly vetting: Vetting }
  | { readonly name: string; readonly kind: "promise"; readonly node: string; readonly vetting: Vetting }
  | { readonly name: string; readonly kind: "inventory" | "note"; readonly node: string };

export interface GateOutput {
  readonly questions: readonly GateQuestion[];
  /** The look is over. */
  readonly over: boolean;
  readonly open: boolean;
  readonly vetting: Vetting;
  readonly knows: readonly string[];
  readonly generation: number;
  readonly names: readonly string[];
  readonly findings: readonly string[];
}

const { signal } = new AbortController();

export const gateRun = async ({ trace, nodes, knows, vetting, ...kept }: GateInput): Promise<GateOutput> => {
  const { ask, questions } = createAwaited(trace);
  const seen = [...knows];
  let { generation, names } = kept;
  /** Of the node whose inventory was compared last: one question tells what was noted, and what is read after it. */
  let told: StoredVolume | undefined;
  const gate = createStoreGate({
    left: nothingLeft(),
    store: {
      identity: () => ask<StoreIdentity>("identity", { kind: "identity" }),
      beginVetting: (runId, begun) => ask("begin", { kind: "begin", runId, vetting: begun }),
      markVetted: (runId, marked) => ask("mark", { kind: "mark", runId, vetting: marked }),
      onSuspect: () => () => undefined,
    },
    nodes: { list: () => nodes, onChange: () => () => undefined },
    agents: {
      promise: ({ name }, asked) => ask<Promised>(`promise ${name}`, { kind: "promise", node: name, vetting: asked }),
      inventory: ({ name }) => ask<Inventory>(`inventory ${name}`, { kind: "inventory", node: name }),
    },
    volumes: {
      read: async (refs) => refs.map(({ id }) => (id === "data" && told ? wholeRecord(told.record) : undefined)),
      ended: async ({ uid }) => told?.ended[uid] !== undefined,
      noteForeign: async ({ name: node }) => {
        told = await ask<StoredVolume>(`note ${node}`, { kind: "note", node });
      },
      none: async () => false,
    },
    knownCalls: async () => new Set(),
    openCalls: () => [],
    controllers: undefined,
    lineage: {
      read: () => "cell",
      remember: () => undefined,
      knows: (uid) => seen.includes(uid),
      saw: ({ gen, uid }) => {
        if (!seen.includes(uid)) seen.push(uid);
        generation = Math.max(generation, gen);
      },
      generation: () => generation,
      nodes: () => names,
      keepNodes: (all) => {
        names = [...all];
      },
    },
    uuid: () => freshVetting,
    clock: createManualClock(),
    log: silentLog,
  });
  const over = await settle(gate.check(signal));
  const { open, vetting: after } = gate.state();
  return {
    questions: questions.map(({ name, about }) => ({ name, ...(about as object) }) as GateQuestion),
    over,
    open,
    vetting: after.gen === 0 ? vetting : after,
    knows: seen,
    generation,
    names,
    findings: gate.findings().map(({ kind, node }) => `${kind} ${node}`.trim()),
  };
};

const nothing: StoredVolume = { record: { claims: {}, attachments: {}, bars: [] }, ended: {} };

/**
 * What came of an inventory, in the place of the inventory and of the records that it was compared with: the look remembers nothing else
 * of them.
 */
export const comparedAs = async (
  node: NodeView["record"],
  inventory: Inventory,
  stored: StoredVolume,
): Promise<{ readonly inventory: Inventory; readonly stored: StoredVolume }> => {
  const record = wholeRecord(stored.record);
  const found = await compareInventory(node, inventory, {
    read: async (refs) => refs.map(({ id }) => (id === "data" ? record : undefined)),
    ended: async ({ uid }) => stored.ended[uid] !== undefined,
    noteForeign: async () => undefined,
    none: async () => false,
  });
  const [held] = inventory.volumes;
  if (found.length === 0 || held === undefined) return { inventory: { ...inventory, volumes: [] }, stored: nothing };
  const unknown = { claimUid: "k0", workload: "k0", alias: "data", epoch: { gen: 0, ctr: 0 }, state: "PUBLISHED" };
  return { inventory: { ...inventory, volumes: [{ ...held, held: [unknown] }] }, stored: nothing };
};

/** Whether an agent that promised this follows orders of that vetting. */
export const follows = (promised: Vetting, sender: Vetting): boolean =>
  ["same", "newer"].includes(judgeVetting(promised, sender));
