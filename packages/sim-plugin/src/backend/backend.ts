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
import { createDelays, type Delay } from "./late-calls.ts";
import { methodFacts } from "./methods.ts";
import { emptyState, type SimState } from "./model.ts";
import { arrivalRules } from "./rules/arrival-rules.ts";
import { police } from "./rules/police.ts";
import { findingsOf, type InFlight, type World } from "./rules/rule.ts";
import type { BackendSettings, ListingLies } from "./settings.ts";
import { createStorageControls, type StorageControls } from "./storage-controls.ts";
import { createUnimplementedMemory } from "./unimplemented-memory.ts";

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
export interface BackendControl extends StorageControls {
  record(): readonly CallRecord[];
  violations(): readonly Violation[];
  /** The calls that are open: begun, and neither answered nor ended by the death of their plugin. */
  inFlight(): readonly Omit<InFlight, "request">[];
  /** The process that calls this instance is dead: its successor may repeat what is open there, and nothing else. */
  senderEnded(instance: string): void;
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
  setListing(lies: ListingLies): void;
}

export type Backend = BackendPort & BackendControl;

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
  const unimplemented = createUnimplementedMemory();
  const instances = new Map<string, Instance>();
  let capabilities: ReadonlySet<Capability> = resolveCapabilities(options.capabilities);
  let latency = options.latency ?? {};
  let listing: ListingLies = {};

  const nameToId = (kind: IdKind, name: string): string => idOf(kind, name, options.idStyle ?? "hash");
  if (options.restored !== undefined) book.restore(options.restored.seq, options.restored.violations);
  faults.set(options.faults ?? []);
  const changed = (): void => options.onChange?.({ state, seq: book.lastSeq(), violations: book.violations() });
  const controls = createStorageControls(state, changed);
  for (const [id, settings] of Object.entries(options.nodes ?? {})) controls.declareNode(id, settings);

  const lateDelay = options.lateCalls === undefined ? undefined : createDelays(options.lateCalls);
  const delayOf = (open: OpenCall): Delay =>
    lateDelay !== undefined && open.lane !== undefined && methodFacts[open.call.method].mutates
      ? lateDelay(`${open.call.method} ${open.lane}`)
      : { delayMs: latency[open.call.method] ?? latency["*"] ?? 0, worksFirst: false };

  const worldOf = (open: OpenCall): World => ({
    state,
    subject: subjectOf(open.call, open.instance.node),
    ...(open.instance.node === undefined ? {} : { node: open.instance.node }),
    has: (capability) => capabilities.has(capability),
    secretsOf: (method) => options.secrets?.[method],
    comparesCapabilities: options.comparesCapabilities === true,
    inFlight: book.inFlight(open),
    ...(open.call.paths === undefined ? {} : { paths: open.call.paths }),
    notReady: faults.notReady(),
    knownUnimplemented: unimplemented.remembers(open.call),
    idOf: nameToId,
  });

  const work = (open: OpenCall): Answer => {
    const context: EffectContext = {
      state,
      settings: options,
      listing,
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

  const end = (open: OpenCall, ending: Ending): void => {
    unimplemented.note(open.call, book.end(open, ending));
  };

  const openOrThrow = (ticket: number): OpenCall => {
    const open = book.open(ticket);
    if (open === undefined) throw new Error(`call ${ticket} is not in flight`);
    return open;
  };

  return {
    attach: (instance) => {
      // The same name again is the next life of that process: the calls of the former one are over.
      for (const open of book.openOf(instance.name)) end(open, { reply: "died" });
      unimplemented.forget(instance.name);
      instances.set(instance.name, instance);
      if (instance.node !== undefined && !state.nodes.has(instance.node))
        controls.declareNode(instance.node, options.nodes?.[instance.node] ?? {});
    },

    detach: (name) => {
      for (const open of book.openOf(name)) end(open, { reply: "died" });
      instances.delete(name);
    },

    begin: (call) => {
      const instance = instances.get(call.instance);
      if (instance === undefined) throw new Error(`instance ${call.instance} has not introduced itself`);
      const open = book.begin(call, instance, laneOf(call, state, instance.node));
      const world = worldOf(open);
      const arrived = options.judgesArrivals === true ? findingsOf(arrivalRules(open.lane), call, world) : [];
      const findings = [...arrived, ...police(call, world, open.lane)]; // P1
      const first = findings[0];
      if (first !== undefined) {
        book.blame(open, findings);
        const refusal = {
          code: first.rule.code,
          message: findings.map((finding) => `${finding.message} [${finding.rule.id}]`).join("; "),
        };
        book.settle(open, { refusal });
        if (findings.some((finding) => finding.rule.blame === "caller")) changed();
        end(open, { reply: "sent" });
        return { kind: "answered", answer: { refusal } };
      }
      const fault = faults.take(call.method, subjectOf(call, instance.node), call.instance);
      const { delayMs, worksFirst } = delayOf(open);
      if (fault === undefined && delayMs === 0 && call.handsOn !== true) {
        const answer = settle(open, work(open)); // P2
        end(open, { reply: "sent" });
        return { kind: "answered", answer };
      }
      if (fault !== undefined) book.meet(open, fault);
      const capacity = state.volumes.get(subjectOf(call).volume ?? "")?.capacity ?? 0n;
      return {
        kind: "open",
        ticket: open.seq,
        delayMs,
        worksFirst,
        capacity,
        ...(fault === undefined ? {} : { fault }),
      };
    },

    apply: (ticket) => {
      const open = openOrThrow(ticket);
      return settle(open, work(open)); // P2
    },
    close: (ticket, ending) => {
      const open = book.open(ticket);
      if (open !== undefined)
        end(open, open.abandoned && ending.reply === "sent" ? { ...ending, reply: "abandoned" } : ending);
    },
    abandon: (ticket) => {
      const open = book.open(ticket);
      if (open !== undefined) open.abandoned = true;
    },

    record: book.record,
    violations: book.violations,
    // Requests carry secrets.
    inFlight: () => book.inFlight().map(({ request: _, ...open }) => open),
    senderEnded: (name) => {
      for (const open of book.openOf(name)) open.orphaned = true;
    },
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
    setListing: (lies) => {
      listing = lies;
    },
    ...controls,
  };
};
