/** The rows of the outcome table: RPCs whose answers prove the same things. */
export type CallKind =
  | "create"
  | "controllerPublish"
  | "stage"
  | "publish"
  | "expand"
  | "modify"
  | "snapshotCreate"
  | "delete"
  | "controllerUnpublish"
  | "unpublish"
  | "unstage"
  | "snapshotDelete"
  | "read";
