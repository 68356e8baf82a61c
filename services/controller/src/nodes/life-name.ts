import { createHash } from "node:crypto";
import type { NodeLife } from "../domain/node/node-life.ts";

const shownDigits = 12;

/** The short name of a life, for people. */
export const lifeName = ({ machineId, bootId, journalUid, lockId = "" }: NodeLife): string =>
  createHash("sha256").update([machineId, bootId, journalUid, lockId].join("\n")).digest("hex").slice(0, shownDigits);
