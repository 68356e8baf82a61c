/**
 * When a call of a plugin instance may start. Everything that waits is in memory; what is owed is in the record.
 *
 * S1 No call starts that the guard does not allow: its limit, and a breaker that is open. S2 At most `perNode` attaches and
 * detaches of one (plugin, node) pair run; one that takes far longer than usual makes room for another, up to `mostOverdue`.
 * S3 Nothing that waits is starved: the turns are those of slot-queues.ts. S4 An aborted waiter rejects and leaves; one that is not
 * wanted any more leaves too; nothing is kept when nothing waits. S5 Calls that are made again hold at most their share of the
 * slots: what fails does not keep out what works. S6 Of a method that the profile names exclusive one call runs at a time.
 * S7 Each instance has slots of its own: its calls keep none of another instance waiting. S8 Nothing waits for a slot of an instance that
 * is aside: calls that are open there go on, and the others are given to another instance.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { onAbort, reasonOf } from "@holdfast/shared/async/signals";
import { createSlotQueues, type Place, type SlotClass, type SlotQueues } from "./slot-queues.ts";

export interface SlotRequest {
  readonly plugin: string;
  /** The instance that the call is given to, if it is given to one. */
  readonly via?: string | undefined;
  /** Absent for calls that concern no node. */
  readonly node?: string | undefined;
  /** Making something goes before taking something away, and both before looking. */
  readonly kind: SlotClass;
  /** The CSI method, for the profile's exclusive ones and for the time it usually takes. */
  readonly method?: string;
  /** It was tried before. */
  readonly repeat?: boolean;
  /** The volume or snapshot, by its key: whoever waits for it may be asked whether it is still wanted. */
  readonly subject?: string;
}

/** What bounds the calls of a plugin. */
export interface SlotGuard {
  allows(plugin: string, via: string | undefined): boolean;
  /** S8 */
  aside(plugin: string, via: string): boolean;
  repeatsAtOnce(plugin: string): number;
  perNode(plugin: string): number;
  exclusive(plugin: string, method: string): boolean;
  /** A call that has run so long holds its node no more. */
  overdueMs(plugin: string, method: string): number;
  /** A call starts; what comes back is to be told its end. */
  started(plugin: string, via: string | undefined): () => void;
  /** More may be allowed now than before. */
  onChange(listener: (plugin: string) => void): () => void;
}

export interface CallSlots {
  /** The same, for calls that are given to the instance which `via` tells when they are about to wait. */
  at(via: () => Promise<string | undefined>): CallSlots;
  /** Waits for a slot and holds it while `fn` runs. */
  run<T>(request: SlotRequest, signal: AbortSignal, fn: () => Promise<T>): Promise<T>;
  /** As `run`; undefined, and nothing run, when it turned out while it waited that it is not wanted any more. */
  runIfWanted<T>(
    request: SlotRequest,
    wanted: () => Promise<boolean>,
    signal: AbortSignal,
    fn: () => Promise<T>,
  ): Promise<T | undefined>;
  /** Something about it has changed: those that wait for it are asked whether they are still wanted. */
  recheck(subject: string): void;
  /** Instances with something running or waiting. */
  size(): number;
  waiting(plugin: string): number;
}

interface Waiter extends Place {
  readonly request: SlotRequest;
  readonly admit: (held: Held) => void;
  readonly drop: () => void;
  readonly wanted: (() => Promise<boolean>) | undefined;
}

interface InstanceSlots {
  readonly plugin: string;
  readonly via: string | undefined;
  running: number;
  repeats: number;
  /** Calls of each node that count (S2), and those that do not any more. */
  readonly nodes: Map<string, number>;
  readonly overdue: Map<string, number>;
  readonly exclusive: Set<string>;
  readonly queues: SlotQueues<Waiter>;
}

/** A slot while it is held. */
interface Held {
  readonly request: SlotRequest;
  readonly exclusive: boolean;
  readonly ended: () => void;
  overdue: boolean;
}

export const mostOverdue = 4;

/** What waits behind each other: calls of one node, or of one method; those made again apart, since they may have to wait longer. */
const queueOf = ({ node, method, repeat }: SlotRequest): string =>
  `${repeat === true ? "again" : "first"} ${node === undefined ? `method ${method ?? ""}` : `node ${node}`}`;

const add = (counts: Map<string, number>, key: string, by: 1 | -1): void => {
  const next = (counts.get(key) ?? 0) + by;
  if (next === 0) counts.delete(key);
  else counts.set(key, next);
};

export const createCallSlots = (guard: SlotGuard, clock: Clock): CallSlots => {
  const instances = new Map<string, InstanceSlots>();
  const bySubject = new Map<string, Set<Waiter>>();

  const keyOf = ({ plugin, via = "" }: Pick<SlotRequest, "plugin" | "via">): string => `${plugin}\n${via}`;

  const slotsOf = ({ plugin, via }: SlotRequest): InstanceSlots => {
    const key = keyOf({ plugin, via });
    const known = instances.get(key);
    if (known !== undefined) return known;
    const fresh: InstanceSlots = {
      plugin,
      via,
      running: 0,
      repeats: 0,
      nodes: new Map(),
      overdue: new Map(),
      exclusive: new Set(),
      queues: createSlotQueues(),
    };
    instances.set(key, fresh);
    return fresh;
  };

  const isAside = ({ plugin, via }: InstanceSlots): boolean => via !== undefined && guard.aside(plugin, via);

  /** Beside S1, which holds for all alike. */
  const fits = (slots: InstanceSlots, { plugin, node, method, repeat }: SlotRequest): boolean =>
    (node === undefined || (slots.nodes.get(node) ?? 0) < guard.perNode(plugin)) && // S2
    (method === undefined || !slots.exclusive.has(method)) && // S6
    (repeat !== true || slots.repeats < guard.repeatsAtOnce(plugin)); // S5

  /** Whoever waits is told by its promise, a turn later: the slot is held from here on. */
  const hold = (slots: InstanceSlots, request: SlotRequest): Held => {
    const { plugin, node, method, repeat } = request;
    const exclusive = method !== undefined && guard.exclusive(plugin, method);
    slots.running += 1;
    if (repeat === true) slots.repeats += 1;
    if (node !== undefined) add(slots.nodes, node, 1);
    if (exclusive) slots.exclusive.add(method);
    return { request, exclusive, ended: guard.started(plugin, slots.via), overdue: false };
  };

  const admit = (slots: InstanceSlots): void => {
    const aside = isAside(slots); // S8
    while (slots.queues.size() > 0 && (aside || guard.allows(slots.plugin, slots.via))) {
      const waiter = slots.queues.take(({ request }) => aside || fits(slots, request));
      if (waiter === undefined) return;
      forget(waiter);
      waiter.admit(hold(slots, waiter.request));
    }
  };

  const forget = (waiter: Waiter): void => {
    const { subject } = waiter.request;
    if (subject === undefined) return;
    const same = bySubject.get(subject);
    same?.delete(waiter);
    if (same?.size === 0) bySubject.delete(subject);
  };

  const tidy = (slots: InstanceSlots): void => {
    if (slots.running === 0 && slots.queues.size() === 0) instances.delete(keyOf(slots)); // S4
  };

  /** S2: the node of a call that takes too long is free for another. */
  const watchOverdue = (slots: InstanceSlots, held: Held): (() => void) => {
    const { plugin, node, method = "" } = held.request;
    const after = guard.overdueMs(plugin, method);
    if (node === undefined || held.exclusive || !Number.isFinite(after)) return () => undefined;
    return clock.timer(after, () => {
      if ((slots.overdue.get(node) ?? 0) >= mostOverdue) return;
      held.overdue = true;
      add(slots.overdue, node, 1);
      add(slots.nodes, node, -1);
      admit(slots);
    });
  };

  const leave = (slots: InstanceSlots, { request, exclusive, ended, overdue }: Held): void => {
    const { node, method, repeat } = request;
    slots.running -= 1;
    if (repeat === true) slots.repeats -= 1;
    if (node !== undefined) add(overdue ? slots.overdue : slots.nodes, node, -1);
    if (exclusive && method !== undefined) slots.exclusive.delete(method);
    ended();
    admit(slots);
    tidy(slots);
  };

  /** The slot that is held from then on; undefined = it is not wanted any more. */
  const wait = (
    slots: InstanceSlots,
    request: SlotRequest,
    wanted: Waiter["wanted"],
    signal: AbortSignal,
  ): Promise<Held | undefined> =>
    new Promise((resolve, reject) => {
      const { kind, subject } = request;
      const out = (): void => {
        stopListening();
        forget(waiter);
        tidy(slots);
      };
      const stopListening = onAbort(signal, () => {
        if (!slots.queues.remove(waiter)) return;
        out();
        reject(reasonOf(signal));
      });
      const waiter: Waiter = {
        kind,
        queue: queueOf(request),
        request,
        wanted,
        admit(held) {
          stopListening();
          resolve(held);
        },
        drop() {
          if (!slots.queues.remove(waiter)) return;
          out();
          resolve(undefined);
        },
      };
      slots.queues.add(waiter);
      if (subject !== undefined) bySubject.set(subject, (bySubject.get(subject) ?? new Set()).add(waiter));
      // Others may wait for a node that is busy, while this one could run.
      admit(slots);
    });

  const runIn = async <T>(
    request: SlotRequest,
    wanted: Waiter["wanted"],
    signal: AbortSignal,
    fn: () => Promise<T>,
  ): Promise<T | undefined> => {
    signal.throwIfAborted();
    const slots = slotsOf(request);
    const free = slots.queues.size() === 0 && guard.allows(request.plugin, request.via) && fits(slots, request);
    const held = free ? hold(slots, request) : await wait(slots, request, wanted, signal);
    if (held === undefined) return undefined;
    const stopTimer = watchOverdue(slots, held);
    try {
      signal.throwIfAborted();
      return await fn();
    } finally {
      stopTimer();
      leave(slots, held);
    }
  };

  const ofPlugin = (plugin: string): readonly InstanceSlots[] =>
    [...instances.values()].filter((slots) => slots.plugin === plugin);

  guard.onChange((plugin) => {
    for (const slots of ofPlugin(plugin)) admit(slots);
  });

  const all: CallSlots = {
    at: (via) => ({
      ...all,
      run: async (request, signal, fn) => all.run({ ...request, via: await via() }, signal, fn),
      runIfWanted: async (request, wanted, signal, fn) =>
        all.runIfWanted({ ...request, via: await via() }, wanted, signal, fn),
    }),
    run: (request, signal, fn) => runIn(request, undefined, signal, fn) as ReturnType<typeof fn>,
    runIfWanted: (request, wanted, signal, fn) => runIn(request, wanted, signal, fn),
    recheck(subject) {
      for (const waiter of [...(bySubject.get(subject) ?? [])])
        void waiter.wanted?.().then(
          (still) => {
            if (!still) waiter.drop();
          },
          () => undefined,
        );
    },
    size: () => instances.size,
    waiting: (plugin) => ofPlugin(plugin).reduce((sum, { queues }) => sum + queues.size(), 0),
  };
  return all;
};
