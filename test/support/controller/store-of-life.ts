/** One store as each life of several controllers sees it: its answers are lost as told, and the life ends before or after a commit. */
import type { Commit, CommitResult } from "@holdfast/controller/domain/store-types";
import type { Store } from "@holdfast/controller/ports";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Halting } from "./halting.ts";

export type CommitFate = "before" | "after";

/** What becomes of the next commits of all lives. */
export interface CommitFates {
  /** Their answers get lost, or they do. */
  readonly lose: CommitFate[];
  /** By controller: so many are let through, then it dies before or after one. */
  readonly doom: Map<string, { skip: number; readonly how: CommitFate; readonly die: () => void }>;
}

export interface StoreOfLifeDeps {
  readonly inner: Store;
  readonly id: string;
  readonly signal: AbortSignal;
  readonly halting: Halting;
  readonly fates: CommitFates;
  /** Told of each commit that was made, in the turn in which it was. */
  readonly saw: (commit: Commit) => void;
}

const reads = ["get", "getMany", "list", "count", "due", "nextDue", "head", "identity"] as const;

/** That a controller is there is told all the time; the fates are for what it does. */
const isBeat = ({ writes }: Commit): boolean => writes.every(({ ref }) => ref.kind === "meta" && ref.key === "sharers");

export const createStoreOfLife = (deps: StoreOfLifeDeps): Store => {
  const { inner, id, signal, halting, fates, saw } = deps;
  /** Tokens of the events whose commit was answered to this life. */
  const own = new Set<string>();

  const guarded: Record<string, unknown> = { ...inner };
  for (const name of reads)
    guarded[name] = async (...args: readonly unknown[]) => {
      signal.throwIfAborted();
      const found = await halting.through((inner[name] as (...args: readonly unknown[]) => Promise<unknown>)(...args));
      signal.throwIfAborted();
      return found;
    };

  /** A commit of this store is made in the turn in which it is asked for. */
  const made = async (wanted: Commit, lost: CommitFate | undefined): Promise<CommitResult> => {
    const result = await inner.commit(wanted);
    if (result.ok && result.repeated !== true) saw(wanted);
    // Without events of its own its token is that of whoever committed the last one.
    if (result.ok && lost === undefined && wanted.events.length > 0) own.add(result.token);
    return result;
  };

  const dies = (): CommitFate | undefined => {
    const doom = fates.doom.get(id);
    if (doom === undefined || doom.skip-- > 0) return undefined;
    fates.doom.delete(id);
    return doom.how;
  };

  const commit: Store["commit"] = async (wanted) => {
    signal.throwIfAborted();
    const beat = isBeat(wanted);
    const die = fates.doom.get(id)?.die;
    const how = beat ? undefined : dies();
    if (how !== undefined) {
      if (how === "after") await made(wanted, how);
      die?.();
      signal.throwIfAborted();
    }
    const lost = beat ? undefined : fates.lose.shift();
    const unknown = () =>
      new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "as told" });
    if (lost === "before") throw unknown();
    const result = await halting.through(made(wanted, lost));
    signal.throwIfAborted();
    if (lost === "after") throw unknown();
    return result;
  };

  return {
    ...(guarded as unknown as Store),
    commit,
    async *watch(after, until) {
      for await (const { own: _o, ...event } of inner.watch(after, until)) {
        await halting.through(Promise.resolve());
        until.throwIfAborted();
        yield own.has(event.token) ? { ...event, own: true } : event;
      }
    },
  };
};
