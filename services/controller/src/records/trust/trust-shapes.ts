/** The fields of tokens and denials that decisions are made from. */
import { amount, filled, optional, type Shape, shaped, text } from "../shape/record-shape.ts";

export const nodeTokenShape: Shape = shaped({
  hash: filled,
  node: filled,
  createdAt: amount,
  endsAt: amount,
  createdBy: text,
  usedAt: optional(amount),
});

export const denialShape: Shape = shaped({ subject: filled, at: amount, endsAt: amount, who: text, reason: text });
