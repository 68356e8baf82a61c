/** As for volumes: between what is durable and the call that follows, and between its answer and the next commit. */
export const snapshotFailpoints = [
  "controller.cut.after-commit",
  "controller.cut.after-call",
  "controller.uncut.after-commit",
  "controller.uncut.after-call",
] as const;

export type SnapshotFailpoint = (typeof snapshotFailpoints)[number];
