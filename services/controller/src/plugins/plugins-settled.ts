import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { PluginPhase } from "@holdfast/csi/plugin-status";
import type { Clock } from "@holdfast/shared/async/clock";

/** It is known how the plugin is, be it that it is away. */
const known: Readonly<Record<PluginPhase, boolean>> = {
  ready: true,
  waiting: true,
  initialising: true,
  unhealthy: true,
  quarantined: true,
  closed: true,
  connecting: false,
};

const lookMs = 20;

/**
 * Waits at the start until the plugins that are there have told who they are, so that the first request after a restart is not
 * answered "no such plugin". Bounded: a plugin that takes its time is found later.
 */
export const pluginsSettled = async (
  directory: Pick<PluginDirectory, "list">,
  clock: Clock,
  signal: AbortSignal,
  { scanMs = 200, mostMs = 2_000 } = {},
): Promise<void> => {
  const start = clock.monotonic();
  for (;;) {
    const elapsed = clock.monotonic() - start;
    const all = directory.list().map((connection) => connection.status());
    // A socket that was found and not tried yet waits too, and has been so for no time.
    const settled = all.every(({ phase, facts }) => (phase === "waiting" ? elapsed >= scanMs : known[phase]) || facts);
    if (elapsed >= mostMs || (settled && (all.length > 0 || elapsed >= scanMs))) return;
    await clock.sleep(lookMs, signal);
  }
};
