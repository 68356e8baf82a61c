/**
 * How much a backend could still make of something, asked of its plugin.
 *
 * B1 Equal questions share one call while it is under way, and its answer for a moment afterwards: schedulers ask it for every placement.
 * B2 No failure is remembered. B3 Memory is bounded: the oldest answer goes first.
 */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { BackendCapacity, CapacityQuery } from "../../domain/plugin/backend-capacity.ts";
import type { CommandDeps } from "../command-deps.ts";
import { pluginAmbiguous, pluginNotFound, pluginNotReady } from "../errors.ts";
import type { Commands } from "../model.ts";
import { sorted } from "../volume/same-content.ts";
import { validateGetCapacity } from "../volume/validate-volume.ts";

const rememberedMs = 2_000;
const remembered = 512;

interface Answer {
  readonly value: Promise<BackendCapacity>;
  /** On the monotonic clock; undefined = still under way. */
  until: number | undefined;
}

const keyOf = ({ plugin, capabilities, parameters, topology }: CapacityQuery): string =>
  JSON.stringify([plugin, capabilities, sorted(parameters), sorted(topology ?? {})]);

const refused = (plugin: string, message: string, code: string | undefined): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CAPABILITY_MISMATCH",
    message:
      code === "UNIMPLEMENTED"
        ? `plugin ${plugin} cannot tell how much room there is: ${message}`
        : `plugin ${plugin} does not say how much room there is for this: ${message}; ask for what it can make`,
    metadata: {
      plugin,
      field: code === "UNIMPLEMENTED" ? "plugin" : "parameters",
      wanted: "GetCapacity",
      has: code ?? "",
    },
  });

export const getCapacityQuery = ({
  plugins,
  clock,
}: Pick<CommandDeps, "plugins" | "clock">): Commands["getCapacity"] => {
  const answers = new Map<string, Answer>();

  const ask = async (query: CapacityQuery): Promise<BackendCapacity> => {
    // Shared with others: it is not given up with the caller who happened to ask first. The call has a deadline of its own.
    const { signal } = new AbortController();
    const outcome = await plugins.getCapacity(query, { signal, attempt: 1 });
    if (outcome.kind === "done") return outcome.value;
    const { code, message } = outcome.failure;
    if (outcome.kind === "refused") throw refused(query.plugin, message, code);
    throw pluginNotReady(query.plugin, message);
  };

  const remember = (key: string, answer: Answer): void => {
    answers.delete(key);
    answers.set(key, answer);
    if (answers.size <= remembered) return;
    const oldest = answers.keys().next().value;
    if (oldest !== undefined) answers.delete(oldest); // B3
  };

  return async (query) => {
    validateGetCapacity(query);
    if (!plugins.names().includes(query.plugin)) throw pluginNotFound(query.plugin);
    const { ready, reason, ambiguous } = plugins.facts(query.plugin);
    if (ambiguous === true) throw pluginAmbiguous(query.plugin, reason);
    if (!ready) throw pluginNotReady(query.plugin, reason);
    const key = keyOf(query);
    const known = answers.get(key);
    if (known !== undefined && (known.until === undefined || known.until > clock.monotonic())) return await known.value; // B1
    const answer: Answer = { value: ask(query), until: undefined };
    remember(key, answer);
    try {
      const value = await answer.value;
      answer.until = clock.monotonic() + rememberedMs;
      return value;
    } catch (error) {
      if (answers.get(key) === answer) answers.delete(key); // B2
      throw error;
    }
  };
};
