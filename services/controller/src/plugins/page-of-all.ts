/**
 * A page of all that a plugin has. Instances with places of their own have a list each: after the last page of an instance comes the
 * first page of the next. A listing that misses an instance ends with a failure, so that it proves no absence.
 */

import type { Failure, Outcome } from "../domain/outcome.ts";
import type { CallTarget } from "../domain/plugin/instance-reach.ts";
import { done, notSent, type PluginCalls, type PluginInstance } from "./plugin-calls.ts";

interface Page {
  readonly next: string;
}

interface ListTarget extends CallTarget {
  readonly token: string;
  readonly secretRef?: string | undefined;
  readonly method: string;
}

interface Turn {
  /** The instance; "" = those that cannot be asked. */
  readonly id: string;
  readonly token: string;
}

const written = ({ id, token }: Turn): string => JSON.stringify([id, token]);

/** undefined = a token that is not of such a listing. */
const readTurn = (token: string): Turn | undefined => {
  try {
    const [id, rest] = JSON.parse(token) as unknown[];
    return typeof id === "string" && typeof rest === "string" ? { id, token: rest } : undefined;
  } catch {
    return undefined;
  }
};

const missed = (plugin: string, missing: readonly string[]): string =>
  `not all of plugin ${plugin} was listed: it cannot be asked on ${missing.slice(0, 3).join(", ")}${missing.length > 3 ? ` and ${missing.length - 3} more` : ""}; start it there, and begin the list anew`;

/** CSI: ABORTED says that a token is not good any more. */
const expired = (plugin: string): Failure => ({
  reason: "PLUGIN_NOT_READY",
  message: `the instance of plugin ${plugin} that the list had come to cannot be asked now`,
  advice: "again",
  code: "ABORTED",
});

export const pageOfAll = async <P extends Page>(
  calls: Pick<PluginCalls, "every" | "run">,
  { token, secretRef, method, ...target }: ListTarget,
  ask: (instance: PluginInstance, token: string, secrets: Readonly<Record<string, string>>) => Promise<Outcome<P>>,
): Promise<Outcome<P>> => {
  const { plugin } = target;
  const need = { ref: secretRef, volume: undefined, method };
  const { here, missing } = calls.every(plugin);
  const [first] = here;
  if (first?.own === undefined)
    return await calls.run<P>(target, need, (instance, secrets) => ask(instance, token, secrets));
  const turn = token === "" ? { id: first.id, token: "" } : readTurn(token);
  if (turn?.id === "" && missing.length > 0) return notSent("PLUGIN_NOT_READY", missed(plugin, missing));
  const at = here.findIndex(({ id }) => id === turn?.id);
  if (turn === undefined || at < 0) return { kind: "unknown", failure: expired(plugin) };
  const answer = await calls.run<P>({ ...target, only: turn.id }, need, (instance, secrets) =>
    ask(instance, turn.token, secrets),
  );
  if (answer.kind !== "done") return answer;
  const { next } = answer.value;
  if (next !== "") return done({ ...answer.value, next: written({ id: turn.id, token: next }) });
  const following = here[at + 1]?.id ?? (missing.length > 0 ? "" : undefined);
  return following === undefined ? answer : done({ ...answer.value, next: written({ id: following, token: "" }) });
};

/** The answer of the instance that has it; undefined = every instance was asked, and none has it. */
export const askEach = async <T>(
  calls: Pick<PluginCalls, "every" | "run">,
  plugin: string,
  ask: (instance: PluginInstance) => Promise<Outcome<T | undefined>>,
): Promise<Outcome<T | undefined>> => {
  const { here, missing } = calls.every(plugin);
  if (here[0]?.own === undefined) return await calls.run({ plugin }, undefined, ask);
  let failed: Outcome<T | undefined> | undefined;
  for (const { id } of here) {
    const answer = await calls.run({ plugin, only: id }, undefined, ask);
    if (answer.kind === "done" && answer.value !== undefined) return answer;
    if (answer.kind !== "done") failed = answer;
  }
  if (failed !== undefined) return failed;
  return missing.length === 0 ? done(undefined) : notSent("PLUGIN_NOT_READY", missed(plugin, missing));
};
