/** A person says that the overtaken call of a snapshot or a group has ended; of a volume: steps-bar.test.ts. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  createSnapshotWorld,
  type SnapshotWorld,
  simPlugin,
} from "../../../../../test/support/controller/snapshot-world.ts";
import type { Seat } from "../../domain/open-call.ts";
import { nameOnNode } from "../../domain/plugin/instance-name.ts";
import { type AuditRecords, createAuditRecords } from "../../records/audit-records.ts";
import { createSnapshotStanding } from "../../records/snapshot-standing.ts";
import { explainCuts } from "../explain/explain-cuts.ts";
import { clearBarCommand } from "./clear-bar.ts";
import { type ListStuckDeps, listStuckQuery } from "./list-stuck.ts";

let world: SnapshotWorld;
let audit: AuditRecords;
const seat = (node: string): Seat => ({ via: nameOnNode(simPlugin, node), gate: "life-1" });
const [g1, g2] = [seat("g1"), seat("g2")];

beforeEach(async () => {
  world = await createSnapshotWorld();
  const { store } = world;
  audit = createAuditRecords({ store, ids: { uuid: () => randomUUID() } });
  world.setSeats(g1, g2);
  await world.makeVolume("data", { capacity: { required: 0, limit: 0 } });
});
afterEach(async () => {
  expect(world.backend.violations()).toEqual([]);
  await world.close();
});

const kinds = ["snapshot", "group"] as const;
type Kind = (typeof kinds)[number];
const make = (kind: Kind) =>
  kind === "snapshot" ? world.snapshot("x", "data") : world.group("x", { "x-data": "data" });

/** The call lies at g1, which never comes back; another gate has made it. */
const overtaken = async (kind: Kind, op: "create" | "delete"): Promise<string> => {
  if (op === "delete") await make(kind);
  world.gates.gateOf(g1).freeze();
  await (op === "delete" ? world.remove(kind, "x") : make(kind));
  world.setSeats(g2);
  await world.pass(8_000);
  const [bar] = (await world.now(kind, "x"))?.bars ?? [];
  expect(bar).toMatchObject({ op, ...g1 });
  return bar?.opId ?? "";
};

const dry = { reason: "ticket 4711", dryRun: true, confirm: "", requestId: "", evidence: "host g1 is scrapped" };
const clear = (of: "volume" | Kind, bar: string, asked: Partial<typeof dry> = {}) => {
  const { records, cuts, clock } = world;
  const command = clearBarCommand({ records, cuts, clock, audit });
  return command({ namespace: "default", of, id: "x", bar, ...dry, ...asked }, world.caller);
};
const cleared = async (kind: Kind, bar: string) => {
  const told = await clear(kind, bar);
  const { auditId } = await clear(kind, bar, { dryRun: false, confirm: told.confirmWith, requestId: "r1" });
  expect(await audit.get(auditId)).toMatchObject({ verb: "ClearBar", evidence: dry.evidence });
  await world.idle();
  return told;
};

describe.each(kinds)("of a %s", (kind) => {
  test("BR3 that is cut: it stays, and is not what the word of another bar or another kind is about", async () => {
    const bar = await overtaken(kind, "create");
    const command = `holdfast repair clear-bar x ${bar} --kind ${kind} --namespace default`;
    const { cuts, records } = world;
    const stuck = listStuckQuery({ records, cuts, nodes: { list: () => [] } } as unknown as ListStuckDeps);
    const { items } = await stuck(
      { namespace: "", plugin: "", node: "", reasons: ["CALL_BARRED"] },
      { size: 5, after: undefined },
    );
    expect(items).toMatchObject([
      { of: kind, state: "BARRED", blocked: { clearWith: expect.stringContaining(command) } },
    ]);
    const volume = await world.volumeNow("data");
    const explained = volume && (await explainCuts(cuts, volume));
    expect(explained?.actions).toEqual([expect.stringContaining(command)]);
    const standing = await createSnapshotStanding({ cuts, clock: world.clock }).now();
    expect([...standing.blocked]).toMatchObject([["CALL_BARRED", { records: 1 }]]);

    await expect(clear(kind, "another")).rejects.toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    await expect(clear("volume", bar)).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    const other = kind === "group" ? "snapshot" : "group";
    await expect(clear(other, bar)).rejects.toMatchObject({ kind: "not_found" });
    await expect(clear(kind, bar, { dryRun: false, confirm: "yes" })).rejects.toMatchObject({ kind: "invalid" });
    expect((await world.now(kind, "x"))?.bars).toHaveLength(1);
    const told = await cleared(kind, bar);
    expect(told.confirmWith).toContain(`given to "${g1.via}" by controller`);
    expect(await world.now(kind, "x")).toMatchObject({ state: "READY", bars: [] });
  });

  test("[I5] BR3 that is cut and unwanted: the delete that waited is made", async () => {
    const bar = await overtaken(kind, "create");
    await world.remove(kind, "x");
    await world.pass(60_000, 10_000);
    expect(await world.now(kind, "x")).toMatchObject({ state: "DELETING" });
    expect((await cleared(kind, bar)).effects).toHaveLength(2);
    await world.pass(2_000);
    const { snapshots, groups } = world.backend.state();
    expect([snapshots.size, groups.size]).toEqual([0, 0]);
    await world.pass(310_000, 10_000);
    expect(await world.now(kind, "x")).toBeUndefined();
  });

  test("BR3 that is deleted: its record goes, and its name is free", async () => {
    const bar = await overtaken(kind, "delete");
    await cleared(kind, bar);
    expect(await world.now(kind, "x")).toBeUndefined();
    expect(await make(kind)).toMatchObject({ state: "READY" });
  });
});
