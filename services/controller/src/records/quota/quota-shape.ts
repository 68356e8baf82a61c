/** The fields of a quota that decisions are made from. */
import { amount, filled, optional, type Shape, shaped } from "../shape/record-shape.ts";

const usage = { volumes: amount, bytes: amount, snapshots: amount };
const { volumes, bytes, snapshots } = usage;

export const quotaShape: Shape = shaped({
  namespace: filled,
  limits: shaped({ volumes: optional(volumes), bytes: optional(bytes), snapshots: optional(snapshots) }),
  used: optional(shaped(usage)),
  createdAt: amount,
  updatedAt: amount,
});
