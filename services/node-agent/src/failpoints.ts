/**
 * Every place where the agent may be killed by a test, before and after each journal record and each call. The list is
 * closed: a name that is not here does not compile, and the kill tests go through all of it. Off unless
 * HOLDFAST_FAILPOINTS names one: `agent.stage.after-journal=kill`, or `=kill@3` for the third time it is passed.
 */
export const failpointNames = [
  "agent.permit.received",
  "agent.stage.before-journal",
  "agent.stage.after-journal",
  "agent.stage.after-mkdir",
  "agent.stage.after-call",
  "agent.publish.before-journal",
  "agent.publish.after-journal",
  "agent.publish.after-mkdir",
  "agent.publish.after-call",
  "agent.publish.after-verify",
  "agent.published.before-journal",
  "agent.published.after-journal",
  "agent.publish.before-answer",
  "agent.release.received",
  "agent.unpublish.before-journal",
  "agent.unpublish.after-journal",
  "agent.unpublish.after-call",
  "agent.unpublish.after-verify",
  "agent.unpublish.after-rmdir",
  "agent.unstage.before-journal",
  "agent.unstage.after-journal",
  "agent.unstage.after-call",
  "agent.released.after-verify",
  "agent.released.after-rmdir",
  "agent.released.before-journal",
  "agent.released.after-journal",
  "agent.release.before-answer",
  "agent.dead.before-journal",
  "agent.dead.after-journal",
  "agent.journal.after-write",
  "agent.compact.after-write",
  "agent.compact.after-rename",
  "agent.register.before-journal",
  "agent.register.after-journal",
] as const;

export type FailpointName = (typeof failpointNames)[number];

export type Failpoint = (name: FailpointName) => void;

export const noFailpoints: Failpoint = () => undefined;

export interface FailpointSetting {
  readonly name: FailpointName;
  /** Fires the n-th time it is passed. */
  readonly at: number;
}

/** "a=kill,b=kill@2". Every mistake at once. */
export function parseFailpoints(text: string): { settings: FailpointSetting[]; mistakes: string[] } {
  const settings: FailpointSetting[] = [];
  const mistakes: string[] = [];
  for (const part of text.split(",").filter((it) => it.trim() !== "")) {
    const [, name = "", at] = /^\s*([a-z.-]+)=kill(?:@([1-9]\d{0,5}))?\s*$/.exec(part) ?? [];
    const known = failpointNames.find((it) => it === name);
    if (known === undefined) mistakes.push(`${part.trim()}: not a known failpoint followed by =kill or =kill@<n>`);
    else settings.push({ name: known, at: Number(at ?? 1) });
  }
  return { settings, mistakes };
}

export function createFailpoints(
  settings: readonly FailpointSetting[],
  kill: (name: FailpointName) => void,
): Failpoint {
  if (settings.length === 0) return noFailpoints;
  const left = new Map(settings.map(({ name, at }) => [name, at]));
  return (name) => {
    const count = left.get(name);
    if (count === undefined) return;
    left.set(name, count - 1);
    if (count === 1) kill(name);
  };
}
