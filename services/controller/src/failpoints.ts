/**
 * Where this process may be killed by a test: between what is durable and the call that follows, and between the call's answer
 * and the commit of it. Off unless HOLDFAST_FAILPOINTS names one: `controller.attach.after-commit=kill`, or `=kill@3` for the third
 * time it is passed.
 */
import { type ReconcileFailpoint, reconcileFailpoints } from "./reconcile/failpoints.ts";

export type FailpointName = ReconcileFailpoint;

export const failpointNames: readonly FailpointName[] = reconcileFailpoints;

export type Failpoint = (name: FailpointName) => void;

export interface FailpointSetting {
  readonly name: FailpointName;
  /** Fires the n-th time it is passed. */
  readonly at: number;
}

/** "a=kill,b=kill@2". Every mistake at once. */
export const parseFailpoints = (
  text: string,
): { readonly settings: readonly FailpointSetting[]; readonly mistakes: readonly string[] } => {
  const settings: FailpointSetting[] = [];
  const mistakes: string[] = [];
  for (const part of text.split(",").map((it) => it.trim())) {
    if (part === "") continue;
    const [, name = "", at = "1"] = /^([a-z.-]+)=kill(?:@([1-9]\d{0,5}))?$/.exec(part) ?? [];
    const known = failpointNames.find((it) => it === name);
    if (known === undefined) mistakes.push(`${part} is no known failpoint followed by =kill or =kill@<n>`);
    else settings.push({ name: known, at: Number(at) });
  }
  return { settings, mistakes };
};

export const createFailpoints = (
  settings: readonly FailpointSetting[],
  kill: (name: FailpointName) => void,
): Failpoint => {
  const left = new Map(settings.map(({ name, at }) => [name, at]));
  return (name) => {
    const count = left.get(name);
    if (count === undefined) return;
    left.set(name, count - 1);
    if (count === 1) kill(name);
  };
};
