/**
 * How many calls a plugin gets at once.
 *
 * S1 Never more than `perPlugin` calls of one plugin run. S2 At most one attach or detach of one (plugin, node) pair runs.
 * S3 A waiting attach or create goes before every waiting detach or delete, but after `fairness` of them in a row one of the
 * others has its turn, so that neither starves. S4 An aborted waiter rejects and leaves; nothing is kept when nothing waits.
 */
import { reasonOf } from "@holdfast/shared/async/signals";

export interface SlotRequest {
  readonly plugin: string;
  /** Absent for calls that concern no node. */
  readonly node?: string | undefined;
  /** Making something goes before taking something away. */
  readonly kind: "make" | "remove";
}

export interface CallSlots {
  /** Waits for a slot and holds it while `fn` runs. */
  run<T>(request: SlotRequest, signal: AbortSignal, fn: () => Promise<T>): Promise<T>;
  /** Plugins with something running or waiting. */
  size(): number;
}

interface Waiter {
  readonly request: SlotRequest;
  readonly admit: () => void;
}

interface PluginSlots {
  running: number;
  readonly nodes: Set<string>;
  readonly waiting: Set<Waiter>;
  /** How many makers were admitted in a row while a remover waited. */
  makersInARow: number;
}

const fairness = 4;

export const createCallSlots = (perPlugin = 64): CallSlots => {
  const plugins = new Map<string, PluginSlots>();

  const slotsOf = (plugin: string): PluginSlots => {
    const known = plugins.get(plugin);
    if (known !== undefined) return known;
    const fresh: PluginSlots = { running: 0, nodes: new Set(), waiting: new Set(), makersInARow: 0 };
    plugins.set(plugin, fresh);
    return fresh;
  };

  const fits = (slots: PluginSlots, { node }: SlotRequest): boolean =>
    slots.running < perPlugin && (node === undefined || !slots.nodes.has(node)); // S1, S2

  const take = (slots: PluginSlots, { node }: SlotRequest): void => {
    slots.running += 1;
    if (node !== undefined) slots.nodes.add(node);
  };

  const next = (slots: PluginSlots): Waiter | undefined => {
    let maker: Waiter | undefined;
    let remover: Waiter | undefined;
    for (const waiter of slots.waiting) {
      if (!fits(slots, waiter.request)) continue;
      if (waiter.request.kind === "make") maker ??= waiter;
      else remover ??= waiter;
      if (maker !== undefined && remover !== undefined) break;
    }
    if (maker === undefined || remover === undefined) return maker ?? remover;
    const turnOfRemover = slots.makersInARow >= fairness; // S3
    slots.makersInARow = turnOfRemover ? 0 : slots.makersInARow + 1;
    return turnOfRemover ? remover : maker;
  };

  const admit = (slots: PluginSlots): void => {
    for (let waiter = next(slots); waiter !== undefined; waiter = next(slots)) {
      slots.waiting.delete(waiter);
      take(slots, waiter.request);
      waiter.admit();
    }
  };

  const leave = (slots: PluginSlots, { plugin, node }: SlotRequest): void => {
    slots.running -= 1;
    if (node !== undefined) slots.nodes.delete(node);
    admit(slots);
    if (slots.running === 0 && slots.waiting.size === 0) plugins.delete(plugin); // S4
  };

  const enter = (slots: PluginSlots, request: SlotRequest, signal: AbortSignal): Promise<void> | undefined => {
    if (slots.waiting.size === 0 && fits(slots, request)) {
      take(slots, request);
      return undefined;
    }
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        slots.waiting.delete(waiter);
        reject(reasonOf(signal));
      };
      const waiter: Waiter = {
        request,
        admit: () => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      signal.addEventListener("abort", onAbort, { once: true });
      slots.waiting.add(waiter);
      // Others may wait for a pair that is busy, while this one could run.
      admit(slots);
    });
  };

  return {
    async run(request, signal, fn) {
      signal.throwIfAborted();
      const slots = slotsOf(request.plugin);
      const wait = enter(slots, request, signal);
      if (wait !== undefined) await wait;
      try {
        signal.throwIfAborted();
        return await fn();
      } finally {
        leave(slots, request);
      }
    },
    size: () => plugins.size,
  };
};
