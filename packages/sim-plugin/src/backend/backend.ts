import type { Admission, Answer, Ending } from "./answer.ts";
import { type Call, type Instance, subjectOf } from "./call.ts";
import { type CallBook, createCallBook, type OpenCall } from "./call-book.ts";
import type { CallRecord, Violation } from "./call-record.ts";
import { type Capability, type CapabilityMask, resolveCapabilities } from "./capabilities.ts";
import { refusalOf } from "./codes.ts";
import { allEffects } from "./effects/all-effects.ts";
import type { EffectContext } from "./effects/effect.ts";
import { createFaultBook, type Fault } from "./faults.ts";
import { type IdKind, idOf } from "./ids.ts";
import { laneOf } from "./lanes.ts";
import { methodFacts } from "./methods.ts";
import { dropUses, emptyState, type SimNode, type SimState, type SimVolume } from "./model.ts";
import { police } from "./rules/police.ts";
import type { World } from "./rules/rule.ts";
import type { BackendSettings, NodeSettings } from "./settings.ts";

/** Everything that must outlive the backend's process. */
export interface BackendSnapshot {
  readonly state: SimState;
  readonly seq: number;
  readonly violations: readonly Violation[];
}

export interface BackendOptions extends BackendSettings {
  readonly clock?: () => Date;
  readonly restored?: BackendSnapshot;
  /** Called after each change of the state, before its answer leaves. */
  readonly onChange?: (snapshot: BackendSnapshot) => void;
}

/** The side role processes speak to. */
export interface BackendPort {
  attach(instance: Instance): void;
  /** The process is gone: what it had in flight is over, done or not. */
  detach(instance: string): void;
  begin(call: Call): Admission;
  /** Does the work of an open call. */
  apply(ticket: number): Answer;
  close(ticket: number, ending: Ending): void;
  /** Its caller has given up; the work goes on until close. */
  abandon(ticket: number): void;
}

/** The side tests speak to. */
export interface BackendControl {
  record(): readonly CallRecord[];
  violations(): readonly Violation[];
  state(): SimState;
  snapshot(): {
    readonly state: SimState;
    readonly record: readonly CallRecord[];
    readonly violations: readonly Violation[];
  };
  /** Forgets record and violations, never the state. */
  clear(): void;
  setFaults(faults: readonly Fault[]): void;
  addFault(fault: Fault): void;
  faults(): readonly { readonly fault: Fault; readonly met: number }[];
  setCapabilities(mask: CapabilityMask): void;
  setLatency(latency: NonNullable<BackendSettings["latency"]>): void;
  declareNode(node: string, settings: NodeSettings): void;
  /** The node is proved dead: detaching from it is no offence although volumes are mounted there. */
  fence(node: string): void;
  /** The node has restarted: its mounts are gone. */
  reboot(node: string): void;
  /** A volume made without the orchestrator, or changed behind its back. */
  addVolume(volume: Pick<SimVolume, "id"> & Partial<SimVolume>): void;
  dropVolume(id: string): void;
  setCondition(volume: string, condition: { readonly abnormal: boolean; readonly message: string }): void;
}

export type Backend = BackendPort & BackendControl;

const nodeFrom = (id: string, settings: NodeSettings, fenced: boolean): SimNode => ({
  id,
  maxVolumes: settings.maxVolumes ?? 0,
  ...(settings.topology === undefined ? {} : { topology: settings.topology }),
  fenced,
});

/**
 * The simulated storage: state, record and judgement. Invariants:
 * P1 every call is judged against the rules before anything else happens to it;
 * P2 the state changes in apply alone, all at once, and only for a call that no rule refused;
 * P3 a change is handed to onChange before the caller can learn of it.
 */
export const createBackend = (options: BackendOptions = {}): Backend => {
  const clock = options.clock ?? (() => new Date());
  const state = options.restored?.state ?? emptyState();
  const book: CallBook = createCallBook(clock);
  const faults = createFaultBook(() => clock().getTime());
  const instances = new Map<string, Instance>();
  let capabilities: ReadonlySet<Capability> = resolveCapabilities(options.capabilities);
  let latency = options.latency ?? {};

  const nameToId = (kind: IdKind, name: string): string => idOf(kind, name, options.idStyle ?? "hash");
  const declareNode = (id: string, settings: NodeSettings): void => {
    state.nodes.set(id, nodeFrom(id, settings, state.nodes.get(id)?.fenced ?? false));
  };
  if (options.restored !== undefined) book.restore(options.restored.seq, options.restored.violations);
  for (const [id, settings] of Object.entries(options.nodes ?? {})) declareNode(id, settings);
  faults.set(options.faults ?? []);

  const changed = (): void => options.onChange?.({ state, seq: book.lastSeq(), violations: book.violations() });

  const worldOf = (open: OpenCall): World => ({
    state,
    subject: subjectOf(open.call, open.instance.node),
    ...(open.instance.node === undefined ? {} : { node: open.instance.node }),
    has: (capability) => capabilities.has(capability),
    secretsOf: (method) => options.secrets?.[method],
    inFlight: book.inFlight(open),
    ...(open.call.paths === undefined ? {} : { paths: open.call.paths }),
    notReady: faults.notReady(),
    idOf: nameToId,
  });

  const work = (open: OpenCall): Answer => {
    const context: EffectContext = {
      state,
      settings: options,
      capabilities,
      node: open.instance.node ?? "",
      now: clock,
      idOf: nameToId,
    };
    try {
      // The compiler cannot tie the call's method to its effect; Call does, by construction.
      const effect = allEffects[open.call.method] as (request: unknown, context: EffectContext) => unknown;
      return { response: effect(open.call.request, context) };
    } catch (error) {
      return { refusal: refusalOf(error) };
    }
  };

  const settle = (open: OpenCall, answer: Answer): Answer => {
    book.settle(open, answer);
    if (methodFacts[open.call.method].mutates || open.call.method === "ListSnapshots") changed(); // P3
    return answer;
  };

  const openOrThrow = (ticket: number): OpenCall => {
    const open = book.open(ticket);
    if (open === undefined) throw new Error(`call ${ticket} is not in flight`);
    return open;
  };

  return {
    attach: (instance) => {
      // The same name again is the next life of that process: the calls of the former one are over.
      for (const open of book.openOf(instance.name)) book.end(open, { reply: "died" });
      instances.set(instance.name, instance);
      if (instance.node !== undefined && !state.nodes.has(instance.node))
        declareNode(instance.node, options.nodes?.[instance.node] ?? {});
    },

    detach: (name) => {
      for (const open of book.openOf(name)) book.end(open, { reply: "died" });
      instances.delete(name);
    },

    begin: (call) => {
      const instance = instances.get(call.instance);
      if (instance === undefined) throw new Error(`instance ${call.instance} has not introduced itself`);
      const open = book.begin(call, instance, laneOf(call, state, instance.node));
      const findings = police(call, worldOf(open), open.lane); // P1
      const first = findings[0];
      if (first !== undefined) {
        book.blame(open, findings);
        const refusal = {
          code: first.rule.code,
          message: findings.map((finding) => `${finding.message} [${finding.rule.id}]`).join("; "),
        };
        book.settle(open, { refusal });
        if (findings.some((finding) => finding.rule.blame === "caller")) changed();
        book.end(open, { reply: "sent" });
        return { kind: "answered", answer: { refusal } };
      }
      const fault = faults.take(call.method, subjectOf(call, instance.node), call.instance);
      const delayMs = latency[call.method] ?? latency["*"] ?? 0;
      if (fault === undefined && delayMs === 0 && call.handsOn !== true) {
        const answer = settle(open, work(open)); // P2
        book.end(open, { reply: "sent" });
        return { kind: "answered", answer };
      }
      if (fault !== undefined) book.meet(open, fault);
      const capacity = state.volumes.get(subjectOf(call).volume ?? "")?.capacity ?? 0n;
      return { kind: "open", ticket: open.seq, delayMs, capacity, ...(fault === undefined ? {} : { fault }) };
    },

    apply: (ticket) => {
      const open = openOrThrow(ticket);
      return settle(open, work(open)); // P2
    },
    close: (ticket, ending) => {
      const open = book.open(ticket);
      if (open !== undefined)
        book.end(open, open.abandoned && ending.reply === "sent" ? { ...ending, reply: "abandoned" } : ending);
    },
    abandon: (ticket) => {
      const open = book.open(ticket);
      if (open !== undefined) open.abandoned = true;
    },

    record: book.record,
    violations: book.violations,
    state: () => state,
    snapshot: () => ({ state: structuredClone(state), record: book.record(), violations: book.violations() }),
    clear: book.clear,
    setFaults: faults.set,
    addFault: faults.add,
    faults: faults.list,
    setCapabilities: (mask) => {
      capabilities = resolveCapabilities(mask);
    },
    setLatency: (next) => {
      latency = next;
    },
    declareNode,
    fence: (id) => {
      const node = state.nodes.get(id);
      if (node !== undefined) node.fenced = true;
    },
    reboot: (id) => {
      const node = state.nodes.get(id);
      if (node !== undefined) node.fenced = false;
      for (const uses of [state.stages, state.publications] as Map<
        string,
        readonly { volume: string; node: string }[]
      >[])
        for (const volume of [...uses.keys()]) dropUses(uses, volume, (use) => use.node === id);
    },
    addVolume: (volume) => {
      const blank = {
        name: volume.id,
        capacity: 1024n ** 3n,
        context: {},
        capabilities: [],
        parameters: {},
        mutableParameters: {},
      };
      state.volumes.set(volume.id, { ...blank, topology: [], argumentsHash: "", attachCount: 0, ...volume });
    },
    dropVolume: (id) => {
      state.volumes.delete(id);
    },
    setCondition: (id, condition) => {
      const volume = state.volumes.get(id);
      if (volume !== undefined) volume.condition = condition;
    },
  };
};
