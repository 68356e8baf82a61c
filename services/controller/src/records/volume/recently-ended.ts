import type { ClaimTombstone } from "../../domain/claim/claim.ts";

export interface RecentlyEnded {
  keep(tombstones: readonly ClaimTombstone[]): void;
  get(uid: string): ClaimTombstone | undefined;
  clear(): void;
}

/** What ended in commits of this process, so that who waited for it reads nothing: a tombstone is written once and never changes. */
export const createRecentlyEnded = (limit = 1024): RecentlyEnded => {
  const byUid = new Map<string, ClaimTombstone>();
  return {
    keep(tombstones) {
      for (const tombstone of tombstones) {
        byUid.set(tombstone.uid, tombstone);
        if (byUid.size <= limit) continue;
        const oldest = byUid.keys().next().value;
        if (oldest !== undefined) byUid.delete(oldest);
      }
    },
    get: (uid) => byUid.get(uid),
    clear: () => byUid.clear(),
  };
};
