/** The fields of a quota that decisions are made from. */
import { filled, optional, type Shape, shaped, size, time } from "@holdfast/model/record-shape";

const usage = { volumes: size, bytes: size, snapshots: size };
const { volumes, bytes, snapshots } = usage;

export const quotaShape: Shape = shaped({
  namespace: filled,
  limits: shaped({ volumes: optional(volumes), bytes: optional(bytes), snapshots: optional(snapshots) }),
  used: optional(shaped(usage)),
  createdAt: time,
  updatedAt: time,
});
