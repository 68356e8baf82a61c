import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { codeOutcome } from "../../../../../test/support/controller/fake-listings.ts";
import { caller, capability, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import type { ListedVolume, ListingPage } from "../../domain/listing.ts";
import type { Orphan } from "../../domain/repair/orphan.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

/** Longer than a record has to have stood before a listing judges it. */
const settled = () => world.pass(120_000, 30_000);

const orphans = async (w = world): Promise<readonly Orphan[]> => {
  const found: Orphan[] = [];
  for await (const orphan of w.orphans.of(plugin)) found.push(orphan);
  return found.sort((a, b) => (a.externalId < b.externalId ? -1 : 1));
};

const used = async (id = "data", node = "n1") => {
  const volume = await world.makeVolume(id);
  await world.claim(`job-${id}`, node, [id]);
  await world.idle();
  await settled();
  return volume.externalId;
};

/** What a comparison may never do by itself. */
const undone = (w = world) => w.backend.calls.filter((c) => c.startsWith("unpublish") || c.startsWith("delete"));
const published = () => world.backend.calls.filter((c) => c.startsWith("publish"));

type Twist = NonNullable<Parameters<World["listings"]["twist"]>[0]>;
const pageWith =
  (change: (entries: readonly ListedVolume[]) => readonly ListedVolume[]): Twist =>
  (page) => ({
    kind: "done",
    value: { ...page, entries: change(page.entries) },
  });

describe("a backend that agrees with the records", () => {
  test("gives nothing to tell and nothing to do, over any number of pages", async () => {
    for (const id of ["a", "b", "c", "d"]) await used(id);
    world.listings.setPageSize(1);
    const calls = world.backend.calls.length;
    expect(await world.compare()).toEqual({ entries: 4, pages: 4, orphans: 0, redriven: 0, unproven: 0 });
    expect(world.backend.calls.length).toBe(calls);
    expect(await orphans()).toEqual([]);
  });
});

describe("storage that no record stands for", () => {
  test("is written down with its size and age, and never deleted by itself", async () => {
    await used();
    world.backend.keep("leaked", "ext-leaked");
    await world.compare();
    const [first] = await orphans();
    expect(first).toMatchObject({ kind: "storage", externalId: "ext-leaked", sizeBytes: 1_000_000 });
    await settled();
    await world.compare();
    expect((await orphans())[0]?.foundAt).toBe(first?.foundAt);
    expect(undone()).toEqual([]);
  });

  test("is told by the volume that it was, when DeleteVolume was answered with OK and the backend lists it still", async () => {
    const { externalId, uid } = await world.makeVolume("data");
    await world.commands.deleteVolume({ namespace: "default", id: "data", uid: "", requestId: "" }, caller);
    await world.idle();
    world.backend.keep("data", externalId);
    await world.compare();
    // It may not have heard of its own answer yet.
    expect(await orphans()).toEqual([]);
    await settled();
    await world.compare();
    const [found] = await orphans();
    expect(found?.detail).toContain(`it was volume default/data (${uid})`);
    expect(found?.detail).toContain("DeleteVolume with OK and lists it still");
  });

  test("may be what a create without an answer made: it has to be there in two listings, and says so", async () => {
    world.backend.chance((method) => (method === "create" ? { kind: "lost" } : undefined));
    await world.makeVolume("data");
    await settled();
    await world.compare();
    expect(await orphans()).toEqual([]);
    await world.compare();
    expect((await orphans())[0]?.detail).toContain("CreateVolume for default/data");
    world.backend.chance(undefined);
    await settled();
    await world.compare();
    expect(await orphans()).toEqual([]);
  });

  test("is over once it is gone from a complete listing, and not before", async () => {
    world.backend.keep("leaked", "ext-leaked");
    await world.compare();
    world.listings.twist(() => codeOutcome("UNAVAILABLE"));
    expect((await world.compare()).gap?.reason).toBe("UNAVAILABLE");
    expect(await orphans()).toHaveLength(1);
    world.listings.twist(pageWith(() => []));
    await world.compare();
    expect(await orphans()).toEqual([]);
  });
});

describe("an attachment that no record owns", () => {
  test("is written down and left attached", async () => {
    const externalId = await used();
    world.backend.attach(externalId, "n2");
    await world.compare();
    expect(await orphans()).toMatchObject([
      { kind: "attachment", externalId, node: "n2", driverNodeId: "n2", namespace: "default", volume: "data" },
    ]);
    await world.compare();
    await settled();
    expect(world.backend.attachments()).toContain(`${externalId}@n2`);
    expect(undone()).toEqual([]);
  });

  test("[C66] of a node that nobody knows is a finding and no crash", async () => {
    const externalId = await used();
    world.backend.attach(externalId, "zone-b/instance-9");
    await world.compare();
    expect(await orphans()).toMatchObject([{ kind: "attachment", node: "", driverNodeId: "zone-b/instance-9" }]);
  });

  test("[O48] is none of a plugin that does not announce that it knows nodes", async () => {
    const externalId = await used();
    world.backend.attach(externalId, "n2");
    world.listings.setSkills({ publishedNodes: "no" });
    await world.compare();
    expect(await orphans()).toEqual([]);
  });
});

describe("an attachment that claims hold and the backend has lost", () => {
  test("[C65] is made again once the volume alone shows it too, and its user keeps its mount", async () => {
    const externalId = await used();
    world.backend.detach(externalId, "n1");
    expect(await world.compare()).toMatchObject({ redriven: 1 });
    await world.idle();
    expect(world.backend.attachments()).toEqual([`${externalId}@n1`]);
    expect(await world.states("job-data")).toEqual(["ACTIVE"]);
    expect((await world.volume("data")).attachments["n1"]).toMatchObject({ state: "ATTACHED" });
    expect((await world.volume("data")).attachments["n1"]?.owed).toBeUndefined();
    expect((await world.volume("data")).intent).toBeUndefined();
  });

  test("[C65] [T1] is not believed from one row, one page or one listing", async () => {
    const externalId = await used();
    world.listings.setSkills({ single: "no" });
    const calls = published().length;
    // Without the row, without the nodes, and in the first of two rows: the listing is wrong each time.
    world.listings.twist(pageWith(() => []));
    await world.compare();
    world.listings.twist(pageWith((entries) => entries.map((e) => ({ ...e, publishedNodes: [] }))));
    expect(await world.compare()).toMatchObject({ redriven: 0, unproven: 1 });
    world.listings.twist(pageWith((entries) => [...entries.map((e) => ({ ...e, publishedNodes: [] })), ...entries]));
    expect(await world.compare()).toMatchObject({ redriven: 0, unproven: 0 });
    expect(published().length).toBe(calls);
    expect(world.backend.attachments()).toEqual([`${externalId}@n1`]);
  });

  test("is asked for twice and no more when the plugin answers OK and never shows it", async () => {
    await used();
    world.listings.setSkills({ single: "no" });
    world.listings.twist(pageWith((entries) => entries.map((e) => ({ ...e, publishedNodes: [] }))));
    const calls = published().length;
    for (let n = 0; n < 8; n += 1) {
      await world.compare();
      await settled();
    }
    expect(published().length - calls).toBe(2);
    expect(await world.states("job-data")).toEqual(["ACTIVE"]);
  });

  test("that somebody else has now is blocked, told, and made again by itself when it is free", async () => {
    const externalId = await used();
    world.backend.detach(externalId, "n1");
    world.backend.attach(externalId, "n9");
    await world.compare();
    await world.idle();
    const { items } = await world.repair.listStuck(
      { namespace: "", plugin: "", node: "", reasons: [] },
      { size: 9, after: undefined },
    );
    expect(items).toMatchObject([{ node: "n1", state: "ATTACHED", blocked: { reason: "FOREIGN_ATTACHMENT" } }]);
    expect((await orphans()).map((o) => [o.kind, o.driverNodeId])).toEqual([["attachment", "n9"]]);
    world.backend.detach(externalId, "n9");
    await world.pass(600_000, 30_000);
    expect(world.backend.attachments()).toEqual([`${externalId}@n1`]);
    expect((await world.volume("data")).attachments["n1"]?.owed).toBeUndefined();
  });

  test("[I6] whose secret cannot be had is blocked, and keeps no other call of the volume waiting", async () => {
    const { publish } = world.backend;
    const shared = { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] };
    const { externalId } = await world.makeVolume("data", shared);
    for (const node of ["n1", "n2"]) await world.claim(`job-${node}`, node, ["data"]);
    await world.idle();
    await settled();
    world.backend.detach(externalId, "n1");
    const reason = "SECRET_NOT_FOUND";
    world.backend.publish = async () => ({
      kind: "unknown",
      failure: { reason, message: "no secret", advice: "block", call: "not-sent" },
    });
    await world.compare();
    await settled();
    await world.compare();
    await world.idle();
    expect((await world.volume("data")).attachments["n1"]?.owed?.blocked).toMatchObject({
      reason: "CREDENTIALS_REFUSED",
      clearWith: expect.stringContaining("correct the secret"),
    });
    await world.release("job-n2");
    await world.pass(5_000);
    expect(await world.states("job-n2")).toEqual(["RELEASED"]);
    world.backend.publish = publish;
    await world.pass(120_000, 10_000);
    expect(world.backend.attachments()).toEqual([`${externalId}@n1`]);
    expect((await world.volume("data")).attachments["n1"]?.owed).toBeUndefined();
  });

  test("whose answer is lost keeps its intent, and is detached when its claim goes meanwhile", async () => {
    const externalId = await used();
    world.backend.detach(externalId, "n1");
    world.backend.chance((method) => (method === "publish" ? { kind: "lost" } : undefined));
    await world.compare();
    await world.idle();
    expect((await world.volume("data")).intent).toMatchObject({ op: "attach", node: "n1" });
    await world.release("job-data");
    await settled();
    // The attach may be open at the plugin: its undo waits for the plugin's answer.
    expect(await world.states("job-data")).toEqual(["DETACHING"]);
    expect(world.backend.calls.some((call) => call.startsWith("unpublish"))).toBe(false);
    world.backend.chance(undefined);
    await world.pass(120_000, 10_000);
    expect(await world.states("job-data")).toEqual(["RELEASED"]);
    expect(world.backend.attachments()).toEqual([]);
    expect((await world.volume("data")).attachments).toEqual({});
  });
});

describe("a record whose storage the backend does not have", () => {
  test("is told when the volume alone is asked for too", async () => {
    const { externalId } = await world.makeVolume("data");
    await settled();
    world.listings.twist(pageWith(() => []));
    await world.compare();
    expect(await orphans()).toEqual([]);
    expect(world.listings.calls).toContain(`volume ${externalId}`);
  });

  test("[C65] is told after two complete listings where a volume cannot be asked for alone", async () => {
    await world.makeVolume("data");
    await settled();
    world.listings.setSkills({ single: "no" });
    world.listings.twist(pageWith(() => []));
    expect(await world.compare()).toMatchObject({ unproven: 1 });
    expect(await orphans()).toEqual([]);
    await world.compare();
    expect(await orphans()).toMatchObject([{ kind: "record", namespace: "default", volume: "data" }]);
    expect((await world.volume("data")).state).toBe("AVAILABLE");
    world.listings.twist(undefined);
    await world.compare();
    expect(await orphans()).toEqual([]);
  });

  test("[C65] is never told while the instance that would have it cannot be asked", async () => {
    const { externalId } = await world.makeVolume("data");
    await settled();
    world.backend.drop(externalId);
    world.listings.setTells(false);
    for (let pass = 0; pass < 3; pass += 1) expect(await world.compare()).toMatchObject({ unproven: 0 });
    expect(await orphans()).toEqual([]);
    world.listings.setTells(true);
    await world.compare();
    expect(await orphans()).toMatchObject([{ kind: "record" }]);
  });
});

describe("a listing", () => {
  test("[O47] that is aborted begins anew from the empty token, and what was read of it counts for nothing", async () => {
    for (const id of ["a", "b", "c"]) await used(id);
    world.listings.setPageSize(1);
    world.listings.twist((_page, nth) => (nth === 2 ? codeOutcome("ABORTED") : undefined));
    expect(await world.compare()).toMatchObject({ entries: 3, pages: 3, unproven: 0 });
    const pages = ["volumes ", "volumes 1", "volumes 2"];
    expect(world.listings.calls.filter((c) => c.startsWith("volumes"))).toEqual([...pages, ...pages]);
  });

  test("[T1] that is aborted again and again, never ends or goes round is given up, and proves nothing", async () => {
    const externalId = await used();
    world.backend.detach(externalId, "n1");
    const calls = world.backend.calls.length;
    world.listings.twist(() => codeOutcome("ABORTED"));
    expect((await world.compare()).gap).toMatchObject({ reason: "ABORTED" });
    world.listings.twist((page) => ({ kind: "done", value: { ...page, next: "again" } }));
    expect((await world.compare()).gap).toMatchObject({ reason: "LISTING_BROKEN" });
    expect(world.backend.calls.length).toBe(calls);
    expect(await orphans()).toEqual([]);
  });

  test("[T2] judges no record that changed after it began, or a little before", async () => {
    const volume = await world.makeVolume("data");
    await world.claim("job-data", "n1", ["data"]);
    await world.idle();
    world.backend.detach(volume.externalId, "n1");
    world.backend.attach(volume.externalId, "n3");
    expect(await world.compare()).toMatchObject({ redriven: 0, orphans: 0 });
    await settled();
    expect(await world.compare()).toMatchObject({ redriven: 1, orphans: 1 });
  });

  test("is not asked for while the store is not vetted, and of a plugin that is away or cannot list", async () => {
    world.gate.set(false);
    expect((await world.compare()).gap?.reason).toBe("STORE_UNVETTED");
    world.gate.set(true);
    world.listings.setSkills({ volumes: "no" });
    expect((await world.compare()).gap?.reason).toBe("CAPABILITY_MISMATCH");
    world.listings.setSkills({ ready: false, reason: "away" });
    expect((await world.compare()).gap).toEqual({ reason: "PLUGIN_NOT_READY", message: "away" });
    expect(world.listings.calls.filter((c) => c.startsWith("volumes"))).toEqual([]);
  });
});

describe("a snapshot that no record stands for", () => {
  const leaked = { externalId: "snap-leaked", sourceVolume: "ext-1", size: 500, createdAt: 5, ready: true, group: "" };

  test("is written down after two complete listings, with what is known of it, and is over when it is gone", async () => {
    world.listings.snapshotsThere.set(leaked.externalId, leaked);
    expect(await world.compare()).toMatchObject({ orphans: 0, unproven: 1 });
    expect(await world.compare()).toMatchObject({ orphans: 1, unproven: 0 });
    const [found] = await orphans();
    expect(found).toMatchObject({ kind: "snapshot", externalId: "snap-leaked", sizeBytes: 500 });
    expect(found?.detail).toContain("cut of ext-1");
    expect(undone()).toEqual([]);
    world.listings.snapshotsThere.clear();
    await world.compare();
    expect(await orphans()).toEqual([]);
  });

  test("is looked for although the plugin cannot list its volumes", async () => {
    world.listings.setSkills({ volumes: "no" });
    world.listings.snapshotsThere.set(leaked.externalId, leaked);
    await world.compare();
    expect((await world.compare()).gap?.reason).toBe("CAPABILITY_MISMATCH");
    expect((await orphans()).map((o) => o.kind)).toEqual(["snapshot"]);
  });
});

/** Rows left out, repeated, with nodes dropped or made up; pages refused. Truth comes back in the end. */
const lies = fc.array(
  fc.record({
    drop: fc.boolean(),
    twice: fc.boolean(),
    nodes: fc.constantFrom("true", "none", "made-up"),
    code: fc.constantFrom("", "", "", "ABORTED", "UNAVAILABLE"),
  }),
  { minLength: 1, maxLength: 12 },
);

test("[T3] whatever a plugin lists, nothing is detached or deleted for it and no user loses a mount", async () => {
  await fc.assert(
    fc.asyncProperty(lies, fc.boolean(), async (script, single) => {
      const w = await createWorld();
      try {
        for (const id of ["a", "b"]) {
          await w.makeVolume(id);
          await w.claim(`job-${id}`, "n1", [id]);
          await w.idle();
        }
        w.listings.setPageSize(1);
        w.listings.setSkills({ single: single ? "yes" : "no" });
        for (const lie of script) {
          await w.pass(90_000, 30_000);
          w.listings.twist((page: ListingPage<ListedVolume>) => {
            if (lie.code !== "") return codeOutcome(lie.code);
            const kept = lie.drop ? [] : page.entries;
            const told = kept.map((entry) => {
              if (lie.nodes === "true") return entry;
              return { ...entry, publishedNodes: lie.nodes === "none" ? [] : ["n2", "elsewhere"] };
            });
            return { kind: "done", value: { ...page, entries: lie.twice ? [...told, ...page.entries] : told } };
          });
          await w.compare();
        }
        expect(undone(w)).toEqual([]);
        expect(await w.states("job-a")).toEqual(["ACTIVE"]);
        expect(w.agents.mounts()).toEqual(["default/a@n1", "default/b@n1"]);
        w.listings.twist(undefined);
        await w.pass(90_000, 30_000);
        await w.compare();
        await w.compare();
        expect(await orphans(w)).toEqual([]);
        expect(w.violations()).toEqual([]);
      } finally {
        await w.close();
      }
    }),
    { numRuns: 25, seed: 20_261_122, endOnFailure: true },
  );
}, 60_000);
