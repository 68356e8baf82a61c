/** What operators may say about quotas. */
import type { Usage } from "../../domain/quota/quota.ts";
import type { CountedQuota } from "../../records/quota/quota-records.ts";
import type { Caller } from "../model.ts";

export type QuotaView = CountedQuota;

export interface DeleteQuotaInput {
  readonly namespace: string;
  readonly reason: string;
  readonly requestId: string;
}

export interface SetQuotaInput extends DeleteQuotaInput {
  readonly limits: Partial<Usage>;
}

export interface QuotaCommands {
  setQuota(input: SetQuotaInput, caller: Caller): Promise<QuotaView>;
  getQuota(namespace: string): Promise<QuotaView>;
  /** Of all namespaces, or of one. */
  listQuotas(
    filter: { readonly namespace: string },
    page: { readonly after: string | undefined; readonly size: number },
  ): Promise<{ readonly items: readonly QuotaView[]; readonly next: string | undefined }>;
  /** False: it had none. */
  deleteQuota(input: DeleteQuotaInput, caller: Caller): Promise<boolean>;
}
