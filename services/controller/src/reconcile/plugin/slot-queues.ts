/**
 * Who waits for a slot of one plugin, and whose turn it is.
 *
 * Q1 What makes goes before what takes away, and both before what only looks; but after `fairness` of higher classes in a row each
 * class that could go has its turn. Q2 Within a class the queues take turns. Q3 Within a queue the order is that of coming. Q4 A
 * queue whose first cannot go is passed over, and keeps its turn.
 */
export const slotClasses = ["make", "remove", "look"] as const;
export type SlotClass = (typeof slotClasses)[number];

export const fairness = 4;

export interface Place {
  readonly kind: SlotClass;
  readonly queue: string;
}

export interface SlotQueues<W extends Place> {
  add(waiter: W): void;
  /** False when it does not wait any more. */
  remove(waiter: W): boolean;
  /** Takes the one whose turn it is out of those that can go. */
  take(canGo: (waiter: W) => boolean): W | undefined;
  size(): number;
}

export const createSlotQueues = <W extends Place>(): SlotQueues<W> => {
  const waiting: Readonly<Record<SlotClass, Map<string, W[]>>> = {
    make: new Map(),
    remove: new Map(),
    look: new Map(),
  };
  /** How many of higher classes went while one of this could have gone. */
  const overtaken: Record<SlotClass, number> = { make: 0, remove: 0, look: 0 };
  let size = 0;

  const first = (kind: SlotClass, canGo: (waiter: W) => boolean): W | undefined => {
    // Only as many queues are passed over as there are nodes with a call under way.
    for (const [waiter] of waiting[kind].values()) if (waiter !== undefined && canGo(waiter)) return waiter; // Q2, Q3, Q4
    return undefined;
  };

  const remove = (waiter: W): boolean => {
    const queues = waiting[waiter.kind];
    const queue = queues.get(waiter.queue);
    const at = queue?.indexOf(waiter) ?? -1;
    if (queue === undefined || at < 0) return false;
    queue.splice(at, 1);
    if (queue.length === 0) queues.delete(waiter.queue);
    size -= 1;
    return true;
  };

  /** Its turn is over: the other queues of the class go first now. */
  const turnOver = ({ kind, queue }: Place): void => {
    const left = waiting[kind].get(queue);
    if (left === undefined) return;
    waiting[kind].delete(queue);
    waiting[kind].set(queue, left);
  };

  return {
    add(waiter) {
      const queues = waiting[waiter.kind];
      const queue = queues.get(waiter.queue);
      if (queue === undefined) queues.set(waiter.queue, [waiter]);
      else queue.push(waiter);
      size += 1;
    },
    remove,
    take(canGo) {
      const able = slotClasses.flatMap((kind) => first(kind, canGo) ?? []);
      const chosen = able.findLast(({ kind }) => overtaken[kind] >= fairness) ?? able[0]; // Q1
      if (chosen === undefined) return undefined;
      const rank = slotClasses.indexOf(chosen.kind);
      overtaken[chosen.kind] = 0;
      for (const { kind } of able) if (slotClasses.indexOf(kind) > rank) overtaken[kind] += 1;
      remove(chosen);
      turnOver(chosen);
      return chosen;
    },
    size: () => size,
  };
};
