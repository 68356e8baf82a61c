import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { durationWords } from "../words/duration.ts";
import { CliFailure } from "./cli-failure.ts";
import { exitCodes } from "./exit-code.ts";
import type { Io } from "./io.ts";
import { startProgress } from "./progress.ts";
import type { Settings } from "./settings.ts";

export interface Awaited<State, Result> {
  /** For people: "volume default/data". */
  readonly what: string;
  /** The states, one after the other, until the signal. */
  watch(signal: AbortSignal): AsyncIterable<State>;
  /** What is going on, in one line. */
  line(state: State): string;
  /** The end of the wait; undefined = not yet. May throw a CliFailure. */
  settled(state: State): Result | undefined;
  /** The commands that look at it, and that stop it (empty: nothing does): said when the wait ends before the work. */
  readonly look: string;
  readonly stop: string;
}

/**
 * Waits for work that goes on elsewhere. Ctrl-C and the end of the time given end the wait and never the work: both say
 * so, and how to look and to stop.
 */
export const awaitSettled = async <State, Result>(
  io: Io,
  settings: Settings,
  awaited: Awaited<State, Result>,
): Promise<Result> => {
  const timeUp = AbortSignal.timeout(settings.timeoutMs);
  const done = new AbortController();
  const progress = startProgress(io, settings.json);
  const next = [
    `${awaited.look}    shows how it stands`,
    awaited.stop === "" ? "it cannot be taken back" : `${awaited.stop}    gives it up`,
  ];
  const ended = (): CliFailure | undefined => {
    if (io.signal.aborted)
      return new CliFailure({
        exitCode: exitCodes.interrupted,
        reason: "INTERRUPTED",
        message: `no longer waiting for ${awaited.what}; the work goes on`,
        next,
      });
    if (timeUp.aborted)
      return new CliFailure({
        exitCode: exitCodes.timeUp,
        reason: "TIME_UP",
        message: `${awaited.what} did not get there within ${durationWords(settings.timeoutMs)}; the work goes on`,
        next,
      });
    return undefined;
  };
  try {
    for await (const state of awaited.watch(AbortSignal.any([io.signal, timeUp, done.signal]))) {
      progress.say(awaited.line(state));
      const result = awaited.settled(state);
      if (result !== undefined) return result;
    }
  } catch (error) {
    const given = ended();
    if (given !== undefined && !(error instanceof CliFailure)) throw given;
    throw error;
  } finally {
    done.abort();
    progress.end();
  }
  throw (
    ended() ??
    new CliFailure({
      exitCode: exitCodes.unavailable,
      reason: "WATCH_ENDED",
      message: `the controller ended the watch of ${awaited.what}; the work goes on`,
      next,
    })
  );
};

/** The end of a stream that was given up by its signal is no failure. */
export const wasGivenUp = (error: unknown, signal: AbortSignal): boolean =>
  signal.aborted && (isHoldfastError(error) ? error.kind === "cancelled" || error.kind === "deadline" : true);
