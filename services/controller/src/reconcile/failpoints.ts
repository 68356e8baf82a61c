/** Where a test may stop or kill this process: between what is durable and the call that follows, and between its answer and the next commit. */
export const reconcileFailpoints = [
  "controller.create.after-commit",
  "controller.create.after-call",
  "controller.delete.after-commit",
  "controller.delete.after-call",
  "controller.attach.after-commit",
  "controller.attach.after-call",
  "controller.attach.after-lead",
  "controller.offer.after-commit",
  "controller.offer.after-call",
  "controller.release.after-commit",
  "controller.release.after-call",
  "controller.detach.after-commit",
  "controller.detach.after-call",
  "controller.expand.after-commit",
  "controller.expand.after-call",
  "controller.grow.after-commit",
  "controller.grow.after-call",
  "controller.modify.after-commit",
  "controller.modify.after-call",
] as const;

/** Those of snapshots and groups. */
export const snapshotFailpoints = [
  "controller.cut.after-commit",
  "controller.cut.after-call",
  "controller.uncut.after-commit",
  "controller.uncut.after-call",
] as const;

export type ReconcileFailpoint = (typeof reconcileFailpoints | typeof snapshotFailpoints)[number];

/** A call, as its failpoints name it. */
export type CallPoint = ReconcileFailpoint extends infer Name
  ? Name extends `controller.${infer Point}.after-call`
    ? Point
    : never
  : never;

export type Failpoint = (name: ReconcileFailpoint) => void | Promise<void>;
