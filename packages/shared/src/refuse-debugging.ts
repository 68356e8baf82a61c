/**
 * What Node was told to do that shows the memory of a service, and with it the secrets that pass through it: an inspector, heap
 * snapshots, reports with the environment, core files. Such an option is a leftover of an investigation more often than a wish. It is no guard
 * against those who set the environment of a service: they can preload code.
 */
import inspector from "node:inspector";
import { ConfigError } from "./config/config-error.ts";
import type { Logger } from "./log/logger.ts";

export interface DebuggedProcess {
  readonly execArgv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Options of Node, in the spelling with dashes; those of a file of options are not seen here, so that the file is refused. */
const revealing =
  /^--(inspect|debug|heapsnapshot-|diagnostic-dir|heap-prof|report-(on|uncaught|signal|dir|filename)|abort-on-uncaught|experimental-(default-)?config-file)/;

/** NODE_OPTIONS may quote its words. */
const wordsOf = (options: string): readonly string[] =>
  options.split(/\s+/).map((word) => word.replaceAll(/["\\]/g, ""));

const named = (words: readonly string[]): readonly string[] =>
  words.map((word) => word.replace(/=.*$/s, "").replaceAll("_", "-")).filter((word) => revealing.test(word));

const found = ({ execArgv, env }: DebuggedProcess, inspectorUrl: string | undefined) => [
  ...named(wordsOf(env["NODE_OPTIONS"] ?? "")).map((option) => ({ field: "NODE_OPTIONS", what: `has ${option}` })),
  ...named(execArgv).map((option) => ({ field: option, what: "is on the command line of node" })),
  ...(inspectorUrl === undefined ? [] : [{ field: "the inspector of Node", what: `is open at ${inspectorUrl}` }]),
];

/** Throws, unless the operator allows it: then the log says what shows the memory. */
export const refuseDebugging = (
  allowed: boolean,
  debugged: DebuggedProcess,
  log: Pick<Logger, "warn">,
  inspectorUrl = inspector.url(),
): void => {
  const ways = found(debugged, inspectorUrl);
  if (ways.length === 0) return;
  if (!allowed)
    throw new ConfigError(
      ways.map(({ field, what }) => ({
        field,
        description: `${what}, which shows the memory of this service and the secrets in it; take it away, or set HOLDFAST_DEBUG_RUNTIME=on where no secret is real`,
      })),
    );
  log.warn("the memory of this service can be read, as HOLDFAST_DEBUG_RUNTIME allows", {
    by: ways.map(({ field, what }) => `${field} ${what}`),
  });
};
