/** Follows one socket path: absent, unfit, or present under an incarnation; whoever waits is woken by each change. */
import path from "node:path";
import type { Clock } from "@holdfast/shared/async/clock";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { watchDirectory } from "./directory-wake.ts";
import { readOwnUid, readSocketState, type SocketState, sameSocket } from "./socket-state.ts";

/** The poll alone still finds a restarted plugin within the second. */
const pollMs = 500;

export interface SocketWatch {
  /** As last seen. */
  current(): SocketState;
  /** Reads it anew, now. */
  refresh(): Promise<SocketState>;
  version(): number;
  /** Resolves when the state changed after `version`; rejects when aborted. */
  changed(version: number, signal: AbortSignal): Promise<number>;
}

export function createSocketWatch(options: {
  readonly socketPath: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): SocketWatch {
  const { socketPath, clock, signal } = options;
  const notifier = createNotifier();
  let current: SocketState = { kind: "absent" };
  let reading: Promise<SocketState> | undefined;
  let again = false;
  let ownUid: number | undefined;

  const read = async (): Promise<SocketState> => {
    ownUid ??= await readOwnUid();
    do {
      again = false;
      const next = await readSocketState(socketPath, ownUid);
      if (!sameSocket(current, next)) {
        current = next;
        notifier.notify();
      }
    } while (again);
    return current;
  };

  /** One look at a time; a wake during it means another look after it, since it may have looked too early. */
  const refresh = (): Promise<SocketState> => {
    if (reading) {
      again = true;
      return reading;
    }
    reading = read().finally(() => {
      reading = undefined;
    });
    return reading;
  };

  watchDirectory({ dir: path.dirname(socketPath), clock, signal, pollMs, wake: () => void refresh() });

  return {
    current: () => current,
    refresh,
    version: () => notifier.version(),
    changed: (version, until) => notifier.wait(version, until),
  };
}
