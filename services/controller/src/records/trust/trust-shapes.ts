/** The fields of tokens and denials that decisions are made from. */
import { filled, optional, type Shape, shaped, text, time } from "@holdfast/model/record-shape";

export const nodeTokenShape: Shape = shaped({
  hash: filled,
  node: filled,
  createdAt: time,
  endsAt: time,
  createdBy: text,
  usedAt: optional(time),
});

export const denialShape: Shape = shaped({ subject: filled, at: time, endsAt: time, who: text, reason: text });
