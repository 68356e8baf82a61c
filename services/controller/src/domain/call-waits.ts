import { attachAnswered, detachAnswered, finishAnswered } from "./attachment/attach-change.ts";
import { reattachAnswered } from "./attachment/owed-change.ts";
import { type Change, noChange } from "./change.ts";
import type { Moment } from "./moment.ts";
import { obligationOf } from "./obligation/obligation.ts";
import type { Failure } from "./outcome.ts";
import { expandAnswered } from "./size/expand-answer.ts";
import { modifyAnswered } from "./volume/modify-change.ts";
import type { VolumeRecord } from "./volume/volume.ts";
import { createAnswered, deleteAnswered } from "./volume/volume-change.ts";

/** The call of the volume may be open and nothing can be asked now: its intent stays as it is, and who waits for it is told why. */
export const callWaits = (volume: VolumeRecord, failure: Failure, at: Moment): Change => {
  const { node = "" } = volume.intent ?? {};
  const unknown = { kind: "unknown", failure } as const;
  switch (obligationOf(volume)) {
    case "create":
      return createAnswered(volume, unknown, at);
    case "delete":
      return deleteAnswered(volume, unknown, at);
    case "attach":
      return attachAnswered(volume, node, unknown, at);
    case "finish":
      return finishAnswered(volume, node, unknown, at);
    case "detach":
      return detachAnswered(volume, node, unknown, at);
    case "reattach":
      return reattachAnswered(volume, node, unknown, at);
    case "expand":
      return expandAnswered(volume, unknown, undefined, at);
    case "modify":
      return modifyAnswered(volume, unknown, at);
    default:
      return noChange(volume);
  }
};
