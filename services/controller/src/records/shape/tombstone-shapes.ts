/** What is left of what has ended, as far as it is decided from. */
import { filled, oneOf, type Shape, shaped, text, time } from "@holdfast/model/record-shape";

export const claimTombstoneShape: Shape = shaped({
  namespace: filled,
  volume: filled,
  workload: filled,
  alias: text,
  uid: filled,
  node: text,
  state: oneOf("RELEASED", "FAILED", "FENCED"),
  createdAt: time,
  endedAt: time,
});

export const volumeTombstoneShape: Shape = shaped({
  namespace: filled,
  id: filled,
  uid: filled,
  plugin: text,
  externalId: text,
  deletedAt: time,
});

export const cutTombstoneShape: Shape = shaped({
  kind: oneOf("snapshot", "group"),
  namespace: filled,
  id: filled,
  uid: filled,
  deletedAt: time,
});

export const deleteMarkShape: Shape = shaped({
  plugin: filled,
  externalId: filled,
  namespace: filled,
  id: filled,
  uid: filled,
  since: time,
});
