/** The API of a world of snapshots, as far as their blocks name it, on a real socket. */

import { randomUUID } from "node:crypto";
import { createRepairService } from "@holdfast/controller/api/repair/repair-service";
import { createSnapshotService } from "@holdfast/controller/api/snapshot/snapshot-service";
import { createRepairCommands } from "@holdfast/controller/commands/repair/repair-commands";
import { createUpgradeCommands } from "@holdfast/controller/commands/upgrade/upgrade-commands";
import { everything } from "@holdfast/controller/domain/access/caller-scope";
import { readableFormats } from "@holdfast/controller/domain/store-format";
import { createTwoWayPass } from "@holdfast/controller/reconcile/two-way/two-way-pass";
import { beingCut, snapshotOwner } from "@holdfast/controller/reconcile/two-way/two-way-snapshots";
import { createAuditRecords } from "@holdfast/controller/records/audit-records";
import { createOrphanRecords } from "@holdfast/controller/records/orphan-records";
import { createRosterRecords } from "@holdfast/controller/records/roster-records";
import { createVolumeScan } from "@holdfast/controller/records/volume/volume-scan";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import type { SnapshotWorld } from "./snapshot-world.ts";

export type ServedCuts = Awaited<ReturnType<typeof serveCuts>>;

export const serveCuts = async (world: SnapshotWorld) => {
  const { work, store, clock, snapshots, changes: wakeups } = world;
  const { cuts, plugins, signal, tracing } = work;
  const ids = { uuid: () => randomUUID(), random: () => 0.5 };
  const audit = createAuditRecords({ store, ids });
  const orphans = createOrphanRecords({ store, clock, ids, signal });
  const scan = createVolumeScan(store);
  const { listings } = plugins;
  const repair = createRepairCommands({
    ...{ ...work, words: undefined, audit, orphans, scan, listings },
    pass: createTwoWayPass({ ...work, listings, orphans, scan }),
    snapshotFacts: {
      owner: (plugin, externalId) => snapshotOwner({ cuts }, plugin, externalId),
      beingCut: (plugin) => beingCut({ cuts }, plugin),
    },
  });
  const roster = createRosterRecords({ store, clock, ids, signal });
  const upgrade = createUpgradeCommands({ roster, audit, store, formats: readableFormats, clock });
  const gate = { state: work.gate.state, findings: () => [], accept: async () => undefined };
  const server = createGrpcServer({ log: createMemoryLogger() });
  server.add(
    SnapshotServiceDefinition,
    createSnapshotService({ granted: () => true, scopeOf: () => everything, snapshots, wakeups, clock, tracing }),
  );
  server.add(
    RepairServiceDefinition,
    createRepairService({
      scopeOf: () => everything,
      gate,
      audit,
      clock,
      tracing,
      commands: repair,
      upgrade,
    }),
  );
  const socket = await tempSocket();
  await server.listen(socket.address);
  return {
    repair,
    address: socket.address,
    async close() {
      await server.stop({ graceMs: 0 });
      await socket.remove();
    },
  };
};
