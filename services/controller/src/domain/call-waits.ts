import { attachUnknown, detachUnknown } from "./attachment/attach-change.ts";
import { reattachFailed } from "./attachment/owed-change.ts";
import { type BlockedStep, blockedBy } from "./blocked.ts";
import { type Change, noChange } from "./change.ts";
import type { Moment } from "./moment.ts";
import type { Blocked, Failure } from "./outcome.ts";
import { expandUnknown } from "./size/expand-answer.ts";
import { modifyUnknown } from "./volume/modify-change.ts";
import type { VolumeRecord } from "./volume/volume.ts";
import { createAnswered, deleteAnswered } from "./volume/volume-change.ts";

/** The call of the volume may be open and nothing can be asked now: its intent stays as it is, and who waits for it is told why. */
export const callWaits = (volume: VolumeRecord, failure: Failure, at: Moment): Change => {
  const { intent } = volume;
  const { op, node = "" } = intent ?? { op: "validate" };
  const attachment = volume.attachments[node];
  const blocked = (step: BlockedStep, known: Blocked | undefined): Blocked =>
    blockedBy(step, failure, { ...volume, ...(node === "" ? {} : { node }) }, known, at.now);
  const waiting = Object.values(volume.claims).find((c) => c.node === node && c.state === "DETACHING");
  switch (op) {
    case "create":
      return createAnswered(volume, { kind: "unknown", failure }, at);
    case "delete":
      return deleteAnswered(volume, { kind: "unknown", failure }, at);
    case "expand":
      return expandUnknown(volume, failure, at);
    case "modify":
      return modifyUnknown(volume, failure, at);
    case "attach":
    case "detach": {
      const known = (waiting ?? attachment?.owed)?.blocked;
      if (attachment?.state === "DETACHING") return detachUnknown(volume, node, failure, blocked(op, known), at);
      return attachment?.state === "ATTACHED"
        ? reattachFailed(volume, node, failure, blocked("attach", known), false, at)
        : attachUnknown(volume, node, failure, at);
    }
    case "validate":
      return noChange(volume);
  }
};
