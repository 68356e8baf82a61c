import { type AccessMode, type AttachmentMode, accessConflict, accessRules } from "@holdfast/model/access";
import { withClaim } from "../change.ts";
import type { Claim, SetMember } from "../claim/claim.ts";
import type { GrantFacts } from "../claim/grant.ts";
import { noAttempts } from "../outcome.ts";
import type { VolumeRecord } from "../volume/volume.ts";
import type { WorldRecord } from "./world-record.ts";
import type { Rules } from "./world-rules.ts";

export interface ClaimWish {
  readonly workload: string;
  readonly aliases: readonly string[];
  readonly node: string;
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly readOnly: boolean;
  readonly queue: boolean;
  readonly deadlineMs: number;
  readonly after?: string;
}

/** As the command for CreateClaims decides: the claims that stand, else all new ones granted at once, else queued, else none. */
export const createClaimBirth = ({
  record,
  rules,
  factsOf,
}: {
  readonly record: WorldRecord;
  readonly rules: Rules;
  readonly factsOf: (plugin: string, node: string) => GrantFacts;
}) => {
  let tickets = 0;
  return (wish: ClaimWish): void => {
    const volume = record.current();
    if (volume?.state !== "AVAILABLE" || volume.goal !== "present") return;
    const { workload, node, accessMode, attachmentMode } = wish;
    const at = record.moment();
    tickets += 1;
    const added = wish.aliases
      .filter(
        (a) =>
          !Object.values(volume.claims).some((c) => c.workload === workload && c.alias === a && c.goal === "active"),
      )
      .map(
        (alias): Claim => ({
          uid: record.newUid(),
          workload,
          alias,
          node,
          accessMode,
          attachmentMode,
          fsType: "",
          mountFlags: [],
          volumeMountGroup: "",
          readOnly: wish.readOnly || accessRules[accessMode].writers === "none",
          state: "QUEUED",
          goal: "active",
          ticket: String(tickets).padStart(6, "0"),
          queueDeadline: at.now + wish.deadlineMs,
          ...(wish.after === undefined ? {} : { after: wish.after }),
          requestId: `request-${tickets}`,
          set: [],
          attempts: noAttempts,
          createdAt: at.now,
          updatedAt: at.now,
          stateSince: at.now,
        }),
      );
    const [first, second] = added;
    if (first === undefined || (second !== undefined && accessConflict(first, second) !== undefined)) return;
    const set: readonly SetMember[] = added.map(({ uid }) => ({ namespace: volume.namespace, volume: volume.id, uid }));
    record.changeSet("claim", (volumes) => {
      const [key = ""] = volumes.keys();
      const drafted = added.reduce<VolumeRecord>((v, c) => withClaim(v, { ...c, set }, at.now), volume);
      const { changes, blocking } = rules.grantSet(new Map([[key, drafted]]), set, factsOf, at);
      if (blocking.length === 0) return changes;
      return wish.queue ? new Map([[key, { volume: drafted, ended: [], notes: [] }]]) : new Map();
    });
  };
};
