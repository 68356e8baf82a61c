/** The errors of quotas, with the reason and metadata of docs/errors.md. */
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { Excess } from "../../domain/quota/quota.ts";

export const quotaExceeded = (namespace: string, { item, limit, used, asked }: Excess): HoldfastError =>
  new HoldfastError({
    kind: "exhausted",
    reason: "QUOTA_EXCEEDED",
    message: `namespace ${namespace} may have ${limit} ${item} and has ${used}: ${asked} more ${asked === 1 ? "is" : "are"} too many. Delete what is not needed, or have an operator raise it: holdfast quota set --namespace ${namespace} --${item} ${used + asked} --reason <why>`,
    metadata: { namespace, item, limit: String(limit), used: String(used), asked: String(asked) },
  });

export const sizeMissing = (namespace: string): HoldfastError =>
  invalidArgument([
    {
      field: "capacity.required_bytes",
      description: `is required in namespace ${namespace}, which has a quota of bytes`,
    },
  ]);

export const quotaNeedsUpgrade = (namespace: string, format: number, needed: number): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "UPGRADE_UNFINISHED",
    message: `namespace ${namespace} gets no quota: the store has format ${format}, so that a controller of an earlier release may write to it, which does not count; end the upgrade first: holdfast upgrade finish`,
    metadata: { namespace, format: String(format), needed: String(needed) },
  });

export const quotaNotFound = (namespace: string): HoldfastError =>
  new HoldfastError({
    kind: "not_found",
    reason: "QUOTA_NOT_FOUND",
    message: `namespace ${namespace} has no quota: it may have as much as there is; holdfast quota set --namespace ${namespace} makes one`,
    metadata: { namespace },
  });
