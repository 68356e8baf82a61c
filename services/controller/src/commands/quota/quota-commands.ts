/**
 * Quotas as operators set them. The word of the person is stored by the commit that changes the quota, or neither is. A request that
 * changes nothing writes nothing.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { checkId, type Violation } from "../../domain/limits.ts";
import { type QuotaRecord, quotaItems, type Usage } from "../../domain/quota/quota.ts";
import { formatWithQuotas } from "../../domain/store-format.ts";
import type { Store } from "../../ports.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import { quotaNeedsUpgrade, quotaNotFound } from "../../records/quota/quota-errors.ts";
import type { QuotaRecords } from "../../records/quota/quota-records.ts";
import type { Caller } from "../model.ts";
import { auditEntry, doneBefore } from "../repair/repair-verb.ts";
import { checkRepair } from "../repair/validate-repair.ts";
import { refuse } from "../volume/validate-volume.ts";
import type { DeleteQuotaInput, QuotaCommands, SetQuotaInput } from "./quota-model.ts";

export interface QuotaCommandDeps {
  readonly quotas: Pick<QuotaRecords, "get" | "list" | "change">;
  readonly audit: Pick<AuditRecords, "newId" | "ofRequest">;
  readonly store: Pick<Store, "format">;
  readonly clock: Pick<Clock, "now">;
}

const checkLimits = (limits: Partial<Usage>): readonly Violation[] => {
  const said = quotaItems.filter((item) => limits[item] !== undefined);
  if (said.length === 0) return [{ field: "limits", description: `must name one of ${quotaItems.join(", ")}` }];
  return said.flatMap((item) =>
    Number.isSafeInteger(limits[item]) && Number(limits[item]) >= 0
      ? []
      : [{ field: `limits.${item}`, description: "must be a whole number, 0 or more, below 2^53" }],
  );
};

const checkAsked = ({ namespace, reason, requestId }: DeleteQuotaInput): readonly Violation[] => [
  ...checkId("namespace", namespace),
  ...checkRepair({ reason, requestId, dryRun: false, confirm: "" }),
];

const words = (limits: Partial<Usage>): string =>
  quotaItems.flatMap((item) => (limits[item] === undefined ? [] : [`${limits[item]} ${item}`])).join(", ");

const same = (a: Partial<Usage>, b: Partial<Usage>): boolean => quotaItems.every((item) => a[item] === b[item]);

export const createQuotaCommands = ({ quotas, audit, store, clock }: QuotaCommandDeps): QuotaCommands => {
  const audited = (verb: string, input: DeleteQuotaInput, caller: Caller, effect: string) => ({
    id: audit.newId(clock.now()),
    entry: auditEntry(verb, { ...input, dryRun: false, confirm: "" }, caller, {
      effects: [effect],
      risks: [],
      confirmWith: "",
      subject: { namespace: input.namespace },
    }),
  });

  const getQuota = async (namespace: string) => {
    refuse(checkId("namespace", namespace));
    const found = await quotas.get(namespace);
    if (found === undefined) throw quotaNotFound(namespace);
    return found;
  };

  const decide = (input: SetQuotaInput, caller: Caller, before: QuotaRecord | undefined): QuotaRecord | undefined => {
    const { namespace, limits, reason } = input;
    if (before !== undefined && same(before.limits, limits)) return undefined;
    const now = clock.now();
    // Without the number of what is used: what a quota bounds anew is counted anew.
    return {
      namespace,
      limits,
      createdAt: before?.createdAt ?? now,
      updatedAt: now,
      changedBy: { who: caller.who, why: `SetQuota: ${reason}` },
    };
  };

  return {
    async setQuota(input, caller) {
      refuse([...checkAsked(input), ...checkLimits(input.limits)]);
      const { namespace, requestId } = input;
      if (store.format() < formatWithQuotas) throw quotaNeedsUpgrade(namespace, store.format(), formatWithQuotas);
      if ((await doneBefore(audit, "SetQuota", requestId, { namespace })) === undefined) {
        const word = audited("SetQuota", input, caller, `namespace ${namespace} may have ${words(input.limits)}`);
        await quotas.change(namespace, (before) => decide(input, caller, before?.record), word);
      }
      return await getQuota(namespace);
    },
    getQuota,
    async listQuotas({ namespace }, { after, size }) {
      if (namespace !== "") {
        const found = await quotas.get(namespace);
        return { items: found === undefined ? [] : [found], next: undefined };
      }
      const { quotas: items, next } = await quotas.list({ after, limit: size });
      return { items, next };
    },
    async deleteQuota(input, caller) {
      refuse(checkAsked(input));
      const { namespace, requestId } = input;
      if ((await doneBefore(audit, "DeleteQuota", requestId, { namespace })) !== undefined) return true;
      const word = audited("DeleteQuota", input, caller, `namespace ${namespace} may have as much as there is`);
      return await quotas.change(namespace, () => null, word);
    },
  };
};
