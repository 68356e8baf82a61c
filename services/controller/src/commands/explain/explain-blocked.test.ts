/** Every way to be blocked: reached, explained with its proof and its command, listed among what is stuck, and gone once it is cleared. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  blockedWays,
  expandData,
  minute,
  usedData,
  type WaysReason,
} from "../../../../../test/support/controller/blocked-ways.ts";
import { caller, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import type { Blocked } from "../../domain/outcome.ts";
import type { CutRecord } from "../../domain/snapshot/snapshot.ts";
import { explainCuts } from "./explain-cuts.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const waysReasons = Object.keys(blockedWays({} as World)) as WaysReason[];
const ways = (): ReturnType<typeof blockedWays> => blockedWays(world);
const used = () => usedData(world);
const expand = (required: number) => expandData(world, required);

const stuck = async () =>
  (await world.repair.listStuck({ namespace: "", plugin: "", node: "", reasons: [] }, { size: 50, after: undefined }))
    .items;

describe("what cannot go on by itself", () => {
  test.each(waysReasons)("%s", async (reason) => {
    const id = await ways()[reason]();
    await world.idle();
    const found = (await stuck()).filter(({ volume }) => volume.id === id);
    expect(found.map(({ blocked }) => blocked.reason)).toEqual([reason]);
    const blocked = found[0]?.blocked as Blocked;
    expect(blocked.missingProof).not.toBe("");
    expect(blocked.since).toBeLessThanOrEqual(world.clock.now());

    const { findings, nextActions } = await world.commands.explainVolume({ namespace: "default", id });
    const told = findings.join("\n");
    expect(told).toContain(`is blocked (${reason}): ${blocked.message}`);
    expect(told).toContain(`missing: ${blocked.missingProof}`);
    expect(told.split(blocked.message), "it is said once").toHaveLength(2);
    // Whose claims they are is known here, and said in place of where to find them.
    const release = "holdfast claim release job data --namespace default";
    expect(nextActions).toContain(reason === "EXPAND_IN_USE" ? release : blocked.clearWith);
    // Named with all that its command needs; a placeholder is left only for what a person has to choose.
    expect(blocked.clearWith).not.toMatch(/undefined|<uid>|<node>|<workload>|\?/);

    // It is looked at again by itself: the age stays, however often.
    const { since } = blocked;
    await world.pass(3 * minute, 30_000);
    const later = (await stuck()).filter(({ volume, blocked: b }) => volume.id === id && b.reason === reason);
    for (const one of later) expect(one.blocked.since).toBe(since);
  });

  test("a claim on storage that is gone is cleared by the commands that its block names, in their order", async () => {
    const id = await ways().NOT_AT_BACKEND();
    await world.idle();
    const { uid } = await world.volume(id);
    expect((await stuck())[0]?.blocked.clearWith).toMatch(
      new RegExp(`claim release job ${id} --namespace default; then: holdfast repair forget-volume ${id} ${uid} --`),
    );
    await world.release("job");
    await world.idle();
    const asked = { namespace: "default", id, uid, evidence: "", reason: "ticket 4711", requestId: "" };
    const { confirmWith } = await world.repair.forgetVolume({ ...asked, dryRun: true, confirm: "" }, caller);
    await world.repair.forgetVolume({ ...asked, dryRun: false, confirm: confirmWith }, caller);
    expect(await stuck()).toEqual([]);
    expect(await world.records.get({ namespace: "default", id })).toBeUndefined();
  });

  test("the name of a replaced machine is cleared by the command that its block names", async () => {
    const id = await ways().NODE_REPLACED();
    await world.idle();
    const claim = Object.values((await world.volume(id)).claims)[0];
    expect((await stuck())[0]?.blocked.clearWith).toContain(
      `holdfast repair abandon-claim ${id} job ${claim?.uid ?? "?"} --namespace default`,
    );
    // The first machine is off, and its mounts with it.
    world.agents.loseJournal("n1");
    const target = { namespace: "default", volume: id, workload: "job", alias: "", claimUid: claim?.uid ?? "" };
    const asked = { ...target, evidence: "the machine was scrapped", reason: "ticket 4711", requestId: "" };
    const { confirmWith, effects } = await world.repair.abandonClaim({ ...asked, dryRun: true, confirm: "" }, caller);
    expect(effects.join("\n")).toContain("is another machine now");
    await world.repair.abandonClaim({ ...asked, dryRun: false, confirm: confirmWith }, caller);
    await world.idle();
    expect(world.backend.attachments()).toEqual([]);
    expect(await stuck()).toEqual([]);
  });
});

test.each(["SECRET_NOT_FOUND", "SECRETS_UNAVAILABLE"])(
  "%s: it is the secret that has to be corrected, not the plugin",
  async (code) => {
    world.backend.chance((method) => (method === "create" ? { kind: "unknown", advice: "block", code } : undefined));
    await world.makeVolume("data");
    expect((await stuck()).map(({ blocked }) => blocked)).toMatchObject([
      { reason: "CREDENTIALS_REFUSED", clearWith: expect.stringContaining("correct the secret") },
    ]);
  },
);

describe("what waits", () => {
  test("a queued claim names its holder, what it waits for and the command", async () => {
    await used();
    await world.claim("next", "n2", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.idle();
    const { claims, nextActions } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    const queued = claims.find(({ claim }) => claim.workload === "next");
    expect(queued).toMatchObject({ step: "waits to be granted", holder: "workload job on node n1, ACTIVE" });
    expect(queued?.waitingFor).toContain("is held by workload job on node n1");
    expect(nextActions).toEqual(["holdfast claim release job data --namespace default"]);
  });

  test("the plugin's last error is told verbatim, with the attempts and the next try", async () => {
    await world.makeVolume("data");
    world.backend.chance((method) =>
      method === "publish" ? { kind: "unknown", advice: "again", code: "INTERNAL" } : undefined,
    );
    await world.claim("job", "n1", ["data"]);
    await world.pass(2_000);
    const { claims, findings } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    const [waiting] = claims;
    expect(waiting).toMatchObject({
      step: "ControllerPublishVolume for n1",
      lastError: { reason: "INTERNAL", message: "publish answered INTERNAL", code: "INTERNAL" },
    });
    expect(waiting?.attempts).toBeGreaterThan(0);
    expect(waiting?.nextTry).toBeGreaterThanOrEqual(world.clock.now() - 1_000);
    expect(findings.join("\n")).toContain("attempts ended with INTERNAL (publish): publish answered INTERNAL");
  });

  test("a snapshot in flight is told with the volume that it holds on to, and with its last error", async () => {
    const { uid } = await world.makeVolume("data");
    const record = {
      kind: "snapshot",
      namespace: "default",
      id: "monday",
      state: "CREATING",
      blocked: { since: 1, reason: "PLUGIN_REFUSED", message: "no room", missingProof: "room", clearWith: "make room" },
      attempts: { count: 3, nextTry: 9, lastError: { reason: "OUT_OF_RANGE", message: "no room", at: 1 } },
      bars: [],
    } as unknown as CutRecord;
    const cuts = {
      list: async (index: string, value: string) => ({
        cuts: index === "snapshot-source" && value === uid ? [{ record, rev: 1 }] : [],
        next: undefined,
      }),
    };
    const { findings, actions } = await explainCuts(cuts, await world.volume("data"));
    expect(findings).toEqual([
      "Snapshot default/monday is blocked (PLUGIN_REFUSED): no room; missing: room.",
      "Snapshot default/monday is CREATING and holds on to the volume: CreateSnapshot.",
      "Snapshot default/monday: the last of 3 attempts ended with OUT_OF_RANGE.",
    ]);
    expect(actions).toEqual(["make room"]);
  });

  test("a growth that a node refuses is told once, with the node and the number of attempts", async () => {
    await used();
    world.agents.script("expand", { kind: "code", code: "FAILED_PRECONDITION" });
    await expand(5_000_000);
    await world.pass(3_000);
    const { findings } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    const { message = "?" } = (await world.volume("data")).growth?.nodes["n1"]?.blocked ?? {};
    const about = findings.filter((line) => line.includes("growth"));
    expect(about[0]).toContain(message);
    expect(about.join("\n").split(message)).toHaveLength(2);
    expect(about[1]).toMatch(/on node n1: the last of \d+ attempts ended with \w+ \(NodeExpandVolume\)\.$/);
  });

  test("an expansion that is refused for now says which step and which node", async () => {
    await used();
    world.agents.chance((method) => (method === "expand" ? { kind: "lost" } : undefined));
    await expand(5_000_000);
    await world.pass(3_000);
    const { findings } = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(findings.join("\n")).toContain("n1");
    expect(findings.join("\n")).toMatch(/growth to 5000000 bytes on node n1/i);
  });
});
