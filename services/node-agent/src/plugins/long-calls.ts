/** Node calls that have lasted for a while: a call that ends sooner costs an entry in a set, and is told to nobody. */
import { callPolicy } from "@holdfast/csi/call-policy";
import type { Clock } from "@holdfast/shared/async/clock";
import type { LongCall } from "../domain/claim-news.ts";
import type { VolumeRef } from "../domain/types.ts";
import type { NodeMethod } from "../ports.ts";

export interface LongCalls {
  watch<T>(call: WatchedCall, run: () => Promise<T>): Promise<T>;
  /** The oldest first. */
  list(): readonly LongCall[];
}

export interface WatchedCall {
  readonly method: NodeMethod;
  readonly ref: VolumeRef;
  readonly instance: string;
  readonly claimUid?: string | undefined;
  readonly attempt?: number | undefined;
}

export function createLongCalls(clock: Pick<Clock, "now" | "monotonic">, afterMs: number): LongCalls {
  const open = new Set<{ readonly call: WatchedCall; readonly since: number; readonly started: number }>();
  return {
    async watch(call, run) {
      const one = { call, since: clock.now(), started: clock.monotonic() };
      open.add(one);
      try {
        return await run();
      } finally {
        open.delete(one);
      }
    },
    list: () =>
      [...open]
        .filter(({ started }) => clock.monotonic() - started >= afterMs)
        .map(({ call: { method, ref, instance, claimUid = "", attempt = 0 }, since }) => ({
          ...{ method, ref, instance, claimUid, attempt, since },
          deadline: since + callPolicy[method].deadlineMs,
        })),
  };
}
