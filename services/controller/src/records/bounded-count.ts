/** What the counts for /metrics share: a bound on what they look at, and one count for all who ask at about the same time. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Blocked } from "../domain/outcome.ts";

const pageSize = 500;
const freshMs = 5_000;

export interface CountPage {
  readonly after: string | undefined;
  readonly limit: number;
}

/** Looks at `most` records or a few more; false = there are others. */
export const countBounded = async <Item>(
  most: number,
  list: (page: CountPage) => Promise<{ readonly items: readonly Item[]; readonly next: string | undefined }>,
  look: (item: Item) => void,
): Promise<boolean> => {
  let after: string | undefined;
  for (let seen = 0; seen < most; ) {
    const { items, next } = await list({ after, limit: pageSize });
    for (const item of items) look(item);
    seen += items.length;
    if (next === undefined) return true;
    after = next;
  }
  return false;
};

/** Two scrapes in a row cost one count. */
export const countOnce = <Counted>(
  clock: Pick<Clock, "monotonic">,
  count: () => Promise<Counted>,
): (() => Promise<Counted>) => {
  let last: Promise<Counted> | undefined;
  let lastAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (last !== undefined && clock.monotonic() - lastAt < freshMs) return last;
    lastAt = clock.monotonic();
    last = count();
    last.catch(() => {
      last = undefined;
    });
    return last;
  };
};

export interface BlockedCount {
  readonly records: number;
  readonly since: number;
}

export const countBlocked = (
  counts: Map<string, BlockedCount>,
  { reason, since }: Pick<Blocked, "reason" | "since">,
): void => {
  const known = counts.get(reason);
  counts.set(reason, { records: (known?.records ?? 0) + 1, since: Math.min(known?.since ?? since, since) });
};
