/** Quotas: messages of holdfast.v1 ↔ the commands' words. */
import type { Quota, QuotaLimits, QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { QuotaCommands, QuotaView } from "../../commands/quota/quota-model.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { quotaItems, type Usage } from "../../domain/quota/quota.ts";
import { listWithin } from "../access/within-scope.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks } from "../check-request.ts";
import { dateOf } from "../convert-message.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";

export interface QuotaServiceDeps extends Pick<ApiDeps, "tracing" | "scopeOf"> {
  readonly quotas: QuotaCommands;
}

const limitsFrom = (wire: QuotaLimits | undefined): Partial<Usage> =>
  Object.fromEntries(quotaItems.flatMap((item) => (wire?.[item] === undefined ? [] : [[item, Number(wire[item])]])));

const optionalCount = (value: number | undefined): bigint | undefined =>
  value === undefined ? undefined : BigInt(value);

const quotaMessage = ({ record: { namespace, limits, createdAt, updatedAt }, used }: QuotaView): Quota => ({
  namespace,
  limits: {
    volumes: optionalCount(limits.volumes),
    bytes: optionalCount(limits.bytes),
    snapshots: optionalCount(limits.snapshots),
  },
  used: { volumes: BigInt(used.volumes), bytes: BigInt(used.bytes), snapshots: BigInt(used.snapshots) },
  createdAt: dateOf(createdAt),
  updatedAt: dateOf(updatedAt),
});

export const createQuotaService = (deps: QuotaServiceDeps): Implementation<typeof QuotaServiceDefinition> => {
  const { quotas } = deps;
  return {
    async setQuota({ namespace, limits, reason, requestId }, context) {
      const input = { namespace, limits: limitsFrom(limits), reason, requestId };
      return { quota: quotaMessage(await quotas.setQuota(input, callerOf(deps, context, "SetQuota"))) };
    },
    getQuota: async ({ namespace }) => ({ quota: quotaMessage(await quotas.getQuota(namespace)) }),
    async listQuotas(request, { identity }) {
      const checks = createChecks();
      const scope = deps.scopeOf(identity);
      const question = questionOf("ListQuotas", {}, scope);
      const page = pageFrom(request, question, checks);
      refuse(checks.violations);
      const { items, next } = await listWithin(scope, { namespace: "" }, page, quotas.listQuotas);
      return { quotas: items.map(quotaMessage), nextPageToken: nextPageToken(next, question) };
    },
    async deleteQuota({ namespace, reason, requestId }, context) {
      const input = { namespace, reason, requestId };
      return { absent: !(await quotas.deleteQuota(input, callerOf(deps, context, "DeleteQuota"))) };
    },
  };
};
