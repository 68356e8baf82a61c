import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { formatIdentity } from "@holdfast/shared/grpc/identity";
import { checkString } from "../domain/limits.ts";
import type { Ids, StoreGate } from "../ports.ts";
import { unimplemented } from "./unimplemented.ts";

export interface RepairServiceDeps {
  readonly gate: Pick<StoreGate, "state"> & {
    findings(): readonly {
      readonly node: string;
      readonly namespace: string;
      readonly volume: string;
      readonly message: string;
    }[];
    accept(who: string, reason: string): Promise<void>;
  };
  readonly ids: Pick<Ids, "uuid">;
}

type RepairService = Implementation<typeof RepairServiceDefinition>;

/** "The first 500." */
const shown = 500;

export const createRepairService = ({ gate, ids }: RepairServiceDeps): RepairService =>
  unimplemented(RepairServiceDefinition, {
    async vet({ accept, reason, dryRun }, { identity }) {
      const violations = [
        ...(accept && reason === ""
          ? [{ field: "reason", description: "is required with accept; it is recorded" }]
          : []),
        ...checkString("reason", reason),
      ];
      if (violations.length > 0) throw invalidArgument(violations);
      const before = gate.state();
      const findings = gate.findings().slice(0, shown);
      const acts = accept && !dryRun && !before.open;
      const auditId = acts ? ids.uuid() : "";
      if (acts) await gate.accept(formatIdentity(identity), `${reason} (audit ${auditId})`);
      const { open, gen } = gate.state();
      return {
        open,
        gen: BigInt(gen),
        findings: findings.map(({ node, namespace, volume, message }) => ({ node, namespace, volume, message })),
        outcome: {
          dryRun,
          auditId,
          consequence: {
            effects: accept && !before.open ? ["the store is trusted as it is, and grants again"] : [],
            risks: accept && !before.open ? ["a volume held by a node that was not heard may get a second holder"] : [],
          },
        },
      };
    },
  });
