import type { Store } from "@holdfast/controller/ports";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";

/** Passes everything on, counts commits, and loses answers as told. */
export const createWatchedStore = (inner: Store) => {
  const lose: ("before" | "after")[] = [];
  let unvetted = false;
  let failing = { count: 0, skip: 0 };
  let commits = 0;
  let reads = 0;
  let counts = 0;
  let failingLists = 0;
  return {
    ...inner,
    list: async (page: Parameters<Store["list"]>[0]) => {
      if (failingLists-- > 0)
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the store is away" });
      return await inner.list(page);
    },
    get: (ref: Parameters<Store["get"]>[0]) => {
      reads += 1;
      return inner.get(ref);
    },
    getMany: (refs: Parameters<Store["getMany"]>[0]) => {
      reads += 1;
      return inner.getMany(refs);
    },
    count: (entries: Parameters<Store["count"]>[0]) => {
      counts += 1;
      return inner.count(entries);
    },
    commit: async (commit: Parameters<Store["commit"]>[0]) => {
      commits += 1;
      if (failing.count > 0 && failing.skip-- <= 0) {
        failing.count -= 1;
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the store is away" });
      }
      if (unvetted && commit.requiresVetted)
        throw new HoldfastError({ kind: "unavailable", reason: "STORE_UNVETTED", message: "another process answers" });
      const how = lose.shift();
      if (how !== "before") {
        const result = await inner.commit(commit);
        if (how === undefined) return result;
      }
      throw new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "the answer was lost" });
    },
    loseCommits: (...how: readonly ("before" | "after")[]) => void lose.push(...how),
    /** After `skip` more commits the next `count` find no store. */
    failCommits: (count: number, skip: number) => {
      failing = { count, skip };
    },
    /** The next lists find no store. */
    failLists: (count: number) => {
      failingLists = count;
    },
    /** Another process answers than the one that was vetted, and the controller has not noticed yet. */
    refuseGrants: (refuse: boolean) => {
      unvetted = refuse;
    },
    commits: () => commits,
    reads: () => reads,
    counts: () => counts,
  };
};
