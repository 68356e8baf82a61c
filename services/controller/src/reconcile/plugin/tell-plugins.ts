import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import type { PluginCommands } from "../../commands/plugin/plugin-commands.ts";
import { stateWords } from "../../domain/plugin/plugin-sighting.ts";

export interface TellPluginsDeps {
  readonly commands: Pick<PluginCommands, "names" | "view">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** By then the agents of a cell that was only restarted have their streams again, and their plugins have told how they are. */
export const tellAfterMs = 15_000;
const shown = 100;

/** What an operator asks first after a start: which plugins there are, and what keeps which of them from being used. */
export const tellPlugins = async ({ commands, clock, log, signal }: TellPluginsDeps): Promise<void> => {
  await clock.sleep(tellAfterMs, signal);
  const names = commands.names("");
  const states = names.slice(0, shown).flatMap((name) => {
    const view = commands.view(name);
    return view === undefined ? [] : [stateWords(name, view.summary)];
  });
  const unusable = names.filter((name) => (commands.view(name)?.summary.missing ?? "") !== "").length;
  log[unusable === 0 ? "info" : "warn"](`${names.length} plugins, ${unusable} of them not usable now`, {
    plugins: states,
  });
};
