import type { Clock } from "@holdfast/shared/async/clock";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { formatIdentity } from "@holdfast/shared/grpc/identity";
import { checkString } from "../../domain/limits.ts";
import type { StoreGate } from "../../ports.ts";
import type { AuditRecords } from "../../records/audit-records.ts";

export interface VetGate extends Pick<StoreGate, "state"> {
  findings(): readonly {
    readonly node: string;
    readonly namespace: string;
    readonly volume: string;
    readonly message: string;
  }[];
  accept(who: string, reason: string): Promise<void>;
}

export interface VetDeps {
  readonly gate: VetGate;
  readonly audit: Pick<AuditRecords, "newId" | "write">;
  readonly clock: Pick<Clock, "now">;
}

/** "The first 500." */
const shown = 500;

const effects = ["the store is trusted as it is, and grants again, for all plugins"];
const risks = [
  "a volume held by a node that was not heard may get a second holder",
  "a call that a controller which was not heard decided before may arrive at its plugin",
];

/** Shows what keeps the store shut; with `accept` it opens in spite of it, and the record of that is stored first. */
export const createVet =
  ({ gate, audit, clock }: VetDeps): Implementation<typeof RepairServiceDefinition>["vet"] =>
  async ({ accept, reason, dryRun }, { identity }) => {
    const violations = [
      ...(accept && reason === "" ? [{ field: "reason", description: "is required with accept; it is recorded" }] : []),
      ...checkString("reason", reason),
    ];
    if (violations.length > 0) throw invalidArgument(violations);
    const before = gate.state();
    const findings = gate.findings().slice(0, shown);
    const opens = accept && (!before.open || findings.length > 0);
    const who = formatIdentity(identity);
    const auditId = opens && !dryRun ? audit.newId(clock.now()) : "";
    if (auditId !== "") {
      const text = { verb: "Vet", who, reason, evidence: "", confirmed: "", requestId: "", traceId: "", subject: {} };
      await audit.write(auditId, { ...text, effects, risks }, clock.now());
      await gate.accept(who, `${reason} (audit ${auditId})`);
    }
    const { open, vetting } = gate.state();
    return {
      open,
      gen: BigInt(vetting.gen),
      findings: findings.map(({ node, namespace, volume, message }) => ({ node, namespace, volume, message })),
      outcome: {
        dryRun,
        auditId,
        consequence: { effects: opens ? effects : [], risks: opens ? risks : [] },
        confirmWith: "",
      },
    };
  };
