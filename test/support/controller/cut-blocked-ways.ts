/** How each reason for which a snapshot or a group is blocked comes about, in a world: one way for each state in which it is told apart. */
import { nameOnNode } from "@holdfast/controller/domain/plugin/instance-name";
import type { CutBlockedReason } from "@holdfast/controller/domain/snapshot/snapshot-blocked";
import type { Code } from "@holdfast/csi/outcome";
import { type SnapshotWorld, simPlugin } from "./snapshot-world.ts";

export type CutWaysReason = CutBlockedReason | "CALL_BARRED";
export type CutWayKind = "snapshot" | "group";

const seatOn = (node: string) => ({ via: nameOnNode(simPlugin, node), gate: "life-1" });
export const seats = [seatOn("g1"), seatOn("g2")] as const;
const [g1, g2] = seats;

/** Total: a new reason does not compile until somebody shows how it comes about. Each leaves the snapshot or group `x` blocked. */
export const cutBlockedWays = (
  world: SnapshotWorld,
  kind: CutWayKind,
): Record<CutWaysReason, () => Promise<unknown>> => {
  const group = kind === "group";
  const make = () => (group ? world.group("x", { "x-data": "data" }) : world.snapshot("x", "data"));
  const remove = () => world.remove(kind, "x");
  const noun = group ? "VolumeGroupSnapshot" : "Snapshot";
  const refuse = (verb: "Create" | "Delete", code: Code): void =>
    world.transport.chance((method) =>
      method === `${verb}${noun}` ? { kind: "code", code, when: "before" } : undefined,
    );
  const ready = async (): Promise<void> => {
    await make();
    await world.pass(60_000, 10_000);
  };
  /** Its call lies at a gate that does not answer, and another instance runs. */
  const frozen = async (): Promise<void> => {
    world.setSeats(g1, g2);
    world.gates.gateOf(g1).freeze();
    await make();
    world.setSeats(g2);
    await world.pass(60_000);
  };
  const outOfReach = async (reason: "PLUGIN_AMBIGUOUS" | "PLACE_UNKNOWN"): Promise<void> => {
    await ready();
    world.setReach({ reason, message: "nothing says which instance has it" });
    await remove();
  };

  return {
    async INCOMPATIBLE() {
      refuse("Create", "ALREADY_EXISTS");
      await make();
    },
    async CREDENTIALS_REFUSED() {
      await ready();
      refuse("Delete", "UNAUTHENTICATED");
      await remove();
    },
    async PLUGIN_REFUSED() {
      refuse("Create", "FAILED_PRECONDITION");
      await make();
    },
    async CREATE_UNCERTAIN() {
      let calls = 0;
      world.transport.chance((method) => {
        if (method !== `Create${noun}`) return undefined;
        calls += 1;
        return calls === 1 ? { kind: "lost" } : { kind: "code", code: "INVALID_ARGUMENT", when: "before" };
      });
      await make();
      await world.pass(5_000);
    },
    async BACKEND_GROUP() {
      world.transport.alter((method, response) =>
        method === "CreateSnapshot"
          ? { snapshot: { ...(response as { snapshot: object }).snapshot, groupSnapshotId: "their-group" } }
          : response,
      );
      await ready();
      await remove();
    },
    PLUGIN_AMBIGUOUS: () => outOfReach("PLUGIN_AMBIGUOUS"),
    PLACE_UNKNOWN: () => outOfReach("PLACE_UNKNOWN"),
    async PLUGIN_HANGS() {
      refuse("Create", "DEADLINE_EXCEEDED");
      await make();
      await world.pass(5_000);
    },
    CALL_MAY_BE_OPEN: frozen,
    CALL_BARRED: frozen,
  };
};
