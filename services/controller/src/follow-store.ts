import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { StoredEvent } from "./domain/store-types.ts";
import type { Store } from "./ports.ts";

export interface FollowStoreOptions {
  readonly feed: Pick<Store, "head" | "watch">;
  /** A volume changed; the revision is undefined when the event does not tell it. */
  readonly onVolume: (key: string, rev: number | undefined) => void;
  readonly onNode: (name: string) => Promise<void>;
  /** Events may have been missed: what is remembered may be old. */
  readonly onGap: () => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const pauseMs = 1_000;

/**
 * Learns what other controllers wrote. Events only say that something may have changed; one that is lost costs time, never truth,
 * because every decision is compared with the record when it is stored. Rejects when aborted.
 */
export const followStore = async (options: FollowStoreOptions): Promise<never> => {
  const { feed, onVolume, onNode, onGap, clock, log, signal } = options;
  for (;;) {
    try {
      const head = await feed.head();
      onGap();
      for await (const event of feed.watch(head, signal)) {
        if (event.ref.kind === "volume") onVolume(event.ref.key, revisionIn(event));
        else if (event.ref.kind === "node") await onNode(event.ref.key);
      }
    } catch (error) {
      signal.throwIfAborted();
      log.warn("the events of the store cannot be followed now", { error });
    }
    await clock.sleep(pauseMs, signal);
  }
};

const revisionIn = ({ body }: StoredEvent): number | undefined => {
  const note: unknown = JSON.parse(body);
  const rev: unknown = typeof note === "object" && note !== null ? Reflect.get(note, "rev") : undefined;
  return typeof rev === "number" ? rev : undefined;
};
