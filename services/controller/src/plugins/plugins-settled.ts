import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";

/**
 * Waits at the start until the plugins that are there have told who they are, so that the first request after a restart is not
 * answered "no such plugin". Bounded: a plugin that takes its time is found later.
 */
export const pluginsSettled = async (
  directory: Pick<PluginDirectory, "settled">,
  clock: Clock,
  signal: AbortSignal,
  mostMs = 2_000,
): Promise<void> => {
  const until = linkSignals(signal);
  const stopTimer = clock.timer(mostMs, () => until.abort(new DOMException("the time is up", "TimeoutError")));
  try {
    await directory.settled(until.signal);
  } catch {
    signal.throwIfAborted();
  } finally {
    stopTimer();
    until.dispose();
  }
};
