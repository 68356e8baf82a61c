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
