/** What a runner is told when its workload cannot be prepared. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { WorkloadName } from "../domain/workload-machine.ts";
import type { ClaimSeen } from "./controller-claims.ts";

const nameOf = ({ namespace, workload }: WorkloadName): string => `workload ${namespace}/${workload}`;

export const workloadNotFound = (name: WorkloadName): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "WORKLOAD_NOT_FOUND",
    message: `${nameOf(name)} is not known on this host; call PrepareWorkload first`,
    metadata: { ...name },
  });

export const otherContent = (name: WorkloadName): HoldfastError =>
  new HoldfastError({
    kind: "already_exists",
    reason: "CLAIM_EXISTS",
    message: `${nameOf(name)} was prepared with other volumes or places; release it first, or ask for the same`,
    metadata: { ...name, field: "volumes" },
  });

/** `cause` is a reason of the last section of docs/errors.md. */
export const claimFailed = (name: WorkloadName, claim: ClaimSeen): HoldfastError => {
  const cause = claim.failure?.reason ?? claim.state;
  const said = claim.failure?.message ?? "";
  return new HoldfastError({
    kind: "precondition",
    reason: cause === "QUEUE_TIMEOUT" ? "QUEUE_TIMEOUT" : "CLAIM_FAILED",
    message: `${nameOf(name)}: the claim of volume ${claim.volume} (${claim.alias}) ended ${claim.state}${said === "" ? "" : `: ${said}`}; what was mounted for the workload is taken back`,
    metadata: { volume: claim.volume, alias: claim.alias, cause },
  });
};

export const claimBlocked = (
  name: WorkloadName,
  claim: ClaimSeen,
  blocked: NonNullable<ClaimSeen["blocked"]>,
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CLAIM_BLOCKED",
    message: `${nameOf(name)}: the claim of volume ${claim.volume} (${claim.alias}) cannot go on by itself: ${blocked.message}`,
    metadata: { volume: claim.volume, alias: claim.alias, cause: blocked.reason, clear_with: blocked.clearWith },
  });

export const givenBack = (name: WorkloadName): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "WORKLOAD_RELEASED",
    message: `${nameOf(name)} was released while it was being prepared; prepare it again if it is still wanted`,
    metadata: { ...name },
  });

export const timeIsUp = (name: WorkloadName, waitingFor: string): HoldfastError =>
  new HoldfastError({
    kind: "deadline",
    reason: "DEADLINE",
    message: `${nameOf(name)} is not ready yet, and is worked on${waitingFor === "" ? "" : ` (${waitingFor})`}; call PrepareWorkload again, or ReleaseWorkload`,
    metadata: { ...name },
  });

export const journalDamaged = (why: string): HoldfastError =>
  new HoldfastError({ kind: "precondition", reason: "JOURNAL_DAMAGED", message: why });

export const journalFull = (why: string): HoldfastError =>
  new HoldfastError({ kind: "exhausted", reason: "JOURNAL_FULL", message: why });
