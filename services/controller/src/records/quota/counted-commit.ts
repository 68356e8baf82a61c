/** A commit of volume records, with what makes it count for the quotas of their namespaces. */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Change } from "../../domain/change.ts";
import { type CountWith, changeOfVolume } from "../../domain/quota/quota.ts";
import type { Commit } from "../../domain/store-types.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";

export interface CountedVolumes {
  readonly found: readonly ({ readonly volume: VolumeRecord } | undefined)[];
  readonly decided: readonly (Pick<Change, "volume"> | undefined)[];
  /** What is beyond a quota may be so by a record that is only remembered: undefined is answered then. */
  readonly remembered: boolean;
}

/** A commit that changes nothing that counts, as of every claim, is stored in this very turn. */
export const countedCommit = <T>(
  counted: CountWith,
  { found, decided, remembered }: CountedVolumes,
  commit: Commit,
  store: (commit: Commit) => Promise<T>,
): Promise<T | undefined> => {
  const changes = decided.flatMap((change, i) =>
    change === undefined ? [] : (changeOfVolume(found[i]?.volume, change.volume) ?? []),
  );
  if (changes.length === 0) return store(commit);
  return counted(changes, ({ writes, expects }) =>
    store({ ...commit, writes: [...commit.writes, ...writes], expects: [...(commit.expects ?? []), ...expects] }),
  ).catch((error: unknown) => {
    if (remembered && isHoldfastError(error) && error.reason === "QUOTA_EXCEEDED") return undefined;
    throw error;
  });
};
