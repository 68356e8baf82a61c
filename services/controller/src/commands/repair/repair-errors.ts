import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { barBlock, barWords } from "../../domain/bar-block.ts";
import type { Bar, VolumeRecord } from "../../domain/volume/volume.ts";

/** The verb's precondition does not hold (any more); `state` is what was found. */
export const repairNotApplicable = (
  subject: string,
  state: string,
  instead: string,
  metadata: Readonly<Record<string, string>> = {},
): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "REPAIR_NOT_APPLICABLE",
    message: `${subject} is ${state}: ${instead}`,
    metadata: { ...metadata, state },
  });

export const requestIdReused = (requestId: string, verb: string, auditId: string): HoldfastError =>
  new HoldfastError({
    kind: "already_exists",
    reason: "REQUEST_ID_REUSED",
    message: `request_id ${requestId} stands for a ${verb} of something else (audit record ${auditId}); take a fresh one`,
    metadata: { request_id: requestId, audit_id: auditId },
  });

export const orphanNotFound = (id: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "ORPHAN_NOT_FOUND",
    message: `no scan has found an orphan ${id}, or it is gone since; scan again (holdfast repair scan)`,
    metadata: { orphan_id: id },
  });

export const auditNotFound = (id: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "AUDIT_NOT_FOUND",
    message: `there is no audit record ${id}; list them without audit_id`,
    metadata: { audit_id: id },
  });

export const nodeBarred = (volume: VolumeRecord, bar: Bar): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "NODE_BARRED",
    message: `${barWords(volume, bar)}; ${barBlock(volume, bar).clearWith}`,
    metadata: { namespace: volume.namespace, volume: volume.id, node: bar.node, issuer: bar.issuer },
  });
