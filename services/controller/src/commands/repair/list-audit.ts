import { checkOptionalId } from "../../domain/limits.ts";
import type { AuditRecord } from "../../domain/repair/audit.ts";
import type { AuditFilter, AuditRecords } from "../../records/audit-records.ts";
import type { Page, PageInput } from "../model.ts";
import { refuse } from "../volume/validate-volume.ts";
import { clampSize } from "../volume/volume-queries.ts";
import { auditNotFound } from "./repair-errors.ts";

export interface AuditQuestion extends AuditFilter {
  readonly auditId: string;
  /** Of one that is named by its id. */
  readonly sees?: (namespace: string) => boolean;
}

/** One record by its id, or the newest that fit. */
export const listAuditQuery =
  ({ audit }: { readonly audit: AuditRecords }) =>
  async (filter: AuditQuestion, { size, after }: PageInput): Promise<Page<AuditRecord>> => {
    refuse([
      ...checkOptionalId("namespace", filter.namespace),
      ...checkOptionalId("volume", filter.volume),
      ...(filter.volume !== "" && filter.namespace === ""
        ? [{ field: "namespace", description: "is required with volume" }]
        : []),
    ]);
    if (filter.auditId !== "") {
      const found = await audit.get(filter.auditId);
      const seen = filter.sees?.(found?.subject.namespace ?? "") ?? true;
      if (found === undefined || !seen) throw auditNotFound(filter.auditId);
      return { items: [found], next: undefined };
    }
    const { records, next } = await audit.list(filter, { after, limit: clampSize(size) });
    return { items: records, next };
  };
