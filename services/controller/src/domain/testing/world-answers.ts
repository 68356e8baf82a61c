import { blockedBy } from "../blocked-by.ts";
import { type Change, noChange } from "../change.ts";
import type { PublishAnswer, ReleaseAnswer } from "../claim/permit.ts";
import type { Moment } from "../moment.ts";
import type { Advice, Failure, Outcome } from "../outcome.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { Rules } from "./world-rules.ts";

export type Decision = (volume: VolumeRecord, at: Moment) => Change;

const slowly = (failure: Failure): Failure => ({ ...failure, advice: "block" });

const failureOf = (
  answer: { readonly reason: string; readonly message: string; readonly code?: string },
  advice: Advice,
): Failure => ({
  reason: answer.reason,
  message: answer.message,
  advice,
  ...(answer.code === undefined ? {} : { code: answer.code }),
});

/** What each answer of the plugin and the agents decides, as the reconciler reads them. */
export const createAnswers = (rules: Rules) => {
  return {
    created:
      (outcome: Outcome<string>): Decision =>
      (volume, at) => {
        const result = { capacity: 1, context: {}, accessible: [], pluginVersion: "1" };
        return rules.createAnswered(
          volume,
          outcome.kind === "done" ? { kind: "done", value: { ...result, externalId: outcome.value } } : outcome,
          at,
        );
      },
    deleted:
      (outcome: Outcome<string>): Decision =>
      (volume, at) =>
        rules.deleteAnswered(volume, outcome.kind === "done" ? { kind: "done", value: undefined } : outcome, at),
    attached:
      (node: string, outcome: Outcome<string>): Decision =>
      (volume, at) =>
        rules.attachAnswered(
          volume,
          node,
          outcome.kind === "done" ? { kind: "done", value: { lun: "1" } } : outcome,
          at,
        ),
    /** `absent` = the backend's own listing does not show the attachment. */
    detached:
      (node: string, outcome: Outcome<string>, absent: boolean): Decision =>
      (volume, at) => {
        const asked = outcome.kind !== "done" && outcome.failure.advice === "check-absence";
        if (outcome.kind === "done" || (asked && absent))
          return rules.detachAnswered(volume, node, { kind: "done", value: undefined }, at);
        const failure = asked ? slowly(outcome.failure) : outcome.failure;
        return rules.detachAnswered(volume, node, { ...outcome, failure }, at);
      },
    published:
      (uid: string, node: { readonly bootId: string; readonly journalUid: string }, answer: PublishAnswer): Decision =>
      (volume, at) => {
        switch (answer.kind) {
          case "published":
            return rules.published(volume, uid, { ...answer.publication, ...node }, at);
          case "not-mounted":
            return rules.notMounted(volume, uid, failureOf(answer, "fail"), at);
          case "refused": {
            const failure = failureOf(answer, "block");
            return rules.permitRefused(
              volume,
              uid,
              failure,
              blockedBy("publish", failure, volume, undefined, at.now),
              at,
            );
          }
          case "uncertain":
            return rules.publishUnknown(volume, uid, failureOf(answer, "again"), undefined, at);
        }
      },
    released:
      (uid: string, answer: ReleaseAnswer): Decision =>
      (volume, at) => {
        if (answer.kind === "released") return rules.released(volume, uid, at);
        const held = answer.kind === "pending" && answer.blocked;
        const failure = failureOf(answer, held ? "block" : "again");
        const why = held ? blockedBy("release", failure, volume, undefined, at.now) : undefined;
        return rules.releaseUnknown(volume, uid, failure, why, at);
      },
    /** Any answer about another life of the volume decides nothing. */
    ofLife:
      (volumeUid: string, decide: Decision): Decision =>
      (volume, at) =>
        volume.uid === volumeUid ? decide(volume, at) : noChange(volume),
  };
};

export type Answers = ReturnType<typeof createAnswers>;
