/**
 * Attach slots: how many volumes of one plugin a node takes. What is used is the number of attachments, in whatever state they
 * are: one that is being made or undone has its slot until its end is proved.
 */

/** Names the slots of a plugin on a node. */
export const slotKey = (plugin: string, node: string): string => `${node}/${plugin}`;

/** How many a node takes, and who says so. */
export interface AttachLimit {
  /** Infinity = as many as anybody likes. */
  readonly limit: number;
  /** By a plugin that refused one more, for a while; otherwise by its NodeGetInfo or its profile. */
  readonly learned: boolean;
}

export const noLimit: AttachLimit = { limit: Number.POSITIVE_INFINITY, learned: false };

/** A set that waits for nothing but slots. Those that were asked for later leave it the ones that it needs. */
export interface SlotWaiter {
  readonly ticket: string;
  readonly need: number;
}

export interface SlotState extends AttachLimit {
  /** undefined = not counted yet: the commit of the grant compares in any case. */
  readonly used: number | undefined;
  readonly waiting: readonly SlotWaiter[];
}

/** Slots that a claim with this ticket may still take; never counted against it are sets that could not be granted at all. */
export const slotsLeft = ({ limit, used = 0, waiting }: SlotState, ticket: string): number => {
  const kept = waiting.reduce((sum, w) => (w.ticket < ticket && w.need <= limit ? sum + w.need : sum), 0);
  return limit - used - kept;
};

/** Why it may not be attached there, for people. */
export const slotsFull = (plugin: string, node: string, slots: SlotState, need: number): string => {
  const { limit, learned, used = 0 } = slots;
  const has = `node ${node} takes ${limit} volume${limit === 1 ? "" : "s"} of plugin ${plugin}${learned ? ", as the plugin refused one more," : ""} and has ${used}`;
  const wanted = need > 1 ? `; ${need} more are asked for together` : "";
  return limit - used >= need ? `${has}${wanted}; others wait for the slots that are left` : `${has}${wanted}`;
};
