import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { type Orphan, OrphanKind, type ScanOrphansResponse } from "@holdfast/shared/gen/holdfast/v1/repair";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { codeOutcome } from "../../../../../test/support/controller/fake-listings.ts";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import { caller, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";

let world: World;
let api: ServedApi;
beforeEach(async () => {
  world = await createWorld();
  api = await serveApi(world);
});
afterEach(async () => {
  await api.close();
  expect(world.violations()).toEqual([]);
  await world.close();
});

const refusal = async (run: Promise<unknown>): Promise<HoldfastError> => {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isHoldfastError(error)) throw new Error(`no refusal but ${String(error)}`);
  return error;
};

type Scan = Parameters<ServedApi["repair"]["scanOrphans"]>[0];

const scan = async (request: Scan = {}): Promise<readonly ScanOrphansResponse[]> => {
  const items: ScanOrphansResponse[] = [];
  for await (const item of api.repair.scanOrphans(request)) items.push(item);
  return items;
};
const orphansIn = (items: readonly ScanOrphansResponse[]): readonly Orphan[] =>
  items.flatMap(({ orphan }) => orphan ?? []);

const settled = () => world.pass(120_000, 30_000);

/** One of each kind, beside a volume that is in use and one that is not. */
const planted = async () => {
  const { externalId } = await world.makeVolume("data");
  await world.makeVolume("other");
  await world.claim("job", "n1", ["data"]);
  await world.idle();
  const dead = await world.makeVolume("dead");
  await settled();
  world.backend.attach(externalId, "n2");
  world.backend.keep("leaked", "ext-leaked");
  world.backend.drop(dead.externalId);
  world.agents.leaveMount("n3", "/var/lib/holdfast/mounts/lost");
  return externalId;
};

const words = { evidence: "nobody of storage needs it", reason: "ticket 4711" };

const remove = async (orphanId: string, change: { readonly requestId?: string } = {}) => {
  const { outcome } = await api.repair.removeOrphan({ orphanId, ...words, dryRun: true });
  const confirm = outcome?.confirmWith ?? "";
  return await api.repair.removeOrphan({ orphanId, ...words, confirm, ...change });
};

const kindOf = (found: readonly Orphan[], kind: OrphanKind): Orphan => {
  const orphan = found.find((o) => o.kind === kind);
  if (orphan === undefined) throw new Error(`no orphan of kind ${kind}`);
  return orphan;
};

describe("ScanOrphans", () => {
  test("[W54] finds each kind that was planted, tells how far it is, and touches nothing", async () => {
    await planted();
    const calls = world.backend.calls.length;
    const items = await scan();
    expect(
      orphansIn(items)
        .map(({ kind, clearWith }) => [kind, clearWith.split(" ").slice(0, 3).join(" ")])
        .sort(),
    ).toEqual(
      [
        [OrphanKind.ORPHAN_KIND_MOUNT, "umount /var/lib/holdfast/mounts/lost on"],
        [OrphanKind.ORPHAN_KIND_ATTACHMENT, "holdfast repair remove-orphan"],
        [OrphanKind.ORPHAN_KIND_STORAGE, "holdfast repair remove-orphan"],
        [OrphanKind.ORPHAN_KIND_RECORD, "restore the storage"],
      ].sort(),
    );
    expect(items.some(({ progress }) => progress !== undefined && progress.entries > 0n)).toBe(true);
    expect(items.at(-1)?.outcome).toMatchObject({ auditId: "" });
    expect(world.backend.calls.length).toBe(calls);
  });

  test("says what it could not look at, instead of nothing", async () => {
    await planted();
    world.agents.silence("n3", true);
    world.listings.twist(() => codeOutcome("UNAVAILABLE"));
    const gaps = (await scan()).flatMap(({ gap }) => gap ?? []);
    expect(gaps).toMatchObject([
      { plugin, node: "", error: { reason: "UNAVAILABLE" } },
      { plugin: "", node: "n3", error: { reason: "NODE_NOT_READY" } },
    ]);
  });

  test("is narrowed by kinds, nodes and plugins, and refuses what it does not clean", async () => {
    await planted();
    const one = await scan({ kinds: [OrphanKind.ORPHAN_KIND_MOUNT], nodes: ["n3"] });
    expect(orphansIn(one)).toMatchObject([{ node: "n3", path: "/var/lib/holdfast/mounts/lost" }]);
    expect(world.listings.calls).toEqual([]);
    expect(orphansIn(await scan({ kinds: [OrphanKind.ORPHAN_KIND_MOUNT], nodes: ["n1"] }))).toEqual([]);
    const { violations } = await refusal(
      scan({ clean: [OrphanKind.ORPHAN_KIND_STORAGE], kinds: [OrphanKind.ORPHAN_KIND_UNSPECIFIED] }),
    );
    expect(violations.map((v) => v.field)).toEqual(["kinds[0]"]);
    const more = await refusal(scan({ clean: [OrphanKind.ORPHAN_KIND_STORAGE] }));
    expect(more.violations.map((v) => v.field)).toEqual(["clean[0]", "reason"]);
  });

  test("cleans attachments whose node shows them unused, and no others", async () => {
    const externalId = await planted();
    world.backend.attach(externalId, "nobody-knows");
    world.agents.silence("n3", true);
    world.backend.attach(externalId, "n3");
    const clean = [OrphanKind.ORPHAN_KIND_ATTACHMENT];
    const dry = await scan({ clean, reason: "ticket 4711", dryRun: true });
    expect(dry.filter((i) => i.cleaned).map((i) => i.orphan?.driverNodeId)).toEqual(["n2"]);
    expect(world.backend.attachments()).toContain(`${externalId}@n2`);
    const items = await scan({ clean, reason: "ticket 4711" });
    expect(items.filter((i) => i.cleaned).map((i) => i.orphan?.driverNodeId)).toEqual(["n2"]);
    await world.idle();
    expect([...world.backend.attachments()].sort()).toEqual(
      [`${externalId}@n1`, `${externalId}@n3`, `${externalId}@nobody-knows`].sort(),
    );
    const { records } = await api.repair.listAudit({ verb: "RemoveOrphan" });
    expect(records).toMatchObject([{ node: "n2", volume: "data", reason: "ticket 4711" }]);
  });
});

describe("RemoveOrphan", () => {
  test("an attachment is detached, and nothing else is touched", async () => {
    const externalId = await planted();
    const orphan = kindOf(orphansIn(await scan()), OrphanKind.ORPHAN_KIND_ATTACHMENT);
    const answer = await remove(orphan.id);
    expect(answer).toMatchObject({ namespace: "default", volume: "data", outcome: { dryRun: false } });
    await world.idle();
    expect(world.backend.attachments()).toEqual([`${externalId}@n1`]);
    expect(world.backend.calls.filter((c) => c.startsWith("unpublish"))).toEqual([`unpublish ${externalId}@n2`]);
    expect(await world.states("job")).toEqual(["ACTIVE"]);
    expect(Object.keys((await world.volume("data")).attachments)).toEqual(["n1"]);
    expect(orphansIn(await scan()).map((o) => o.kind)).not.toContain(OrphanKind.ORPHAN_KIND_ATTACHMENT);
  });

  test("a detach without an answer is repeated, explained while it is owed, and keeps the volume from being deleted", async () => {
    await planted();
    const orphan = kindOf(orphansIn(await scan()), OrphanKind.ORPHAN_KIND_ATTACHMENT);
    world.backend.chance((method) => (method === "unpublish" ? { kind: "lost" } : undefined));
    await remove(orphan.id);
    await world.pass(5_000);
    expect((await world.volume("data")).attachments["n2"]).toMatchObject({ state: "DETACHING" });
    const explained = await world.commands.explainVolume({ namespace: "default", id: "data" });
    expect(explained.findings.join("\n")).toContain("approved");
    world.backend.chance(undefined);
    await world.pass(120_000, 5_000);
    expect(Object.keys((await world.volume("data")).attachments)).toEqual(["n1"]);
  });

  test("[I6] an attachment of a volume that is expanded while unused waits for that call: neither waits for the other", async () => {
    world.backend.setFacts({ expandsOnline: "no", expandsOffline: "yes" });
    const { externalId } = await world.makeVolume("data");
    await settled();
    world.backend.attach(externalId, "n2");
    const orphan = kindOf(orphansIn(await scan()), OrphanKind.ORPHAN_KIND_ATTACHMENT);
    world.backend.chance((method) => (method === "expand" ? { kind: "dropped" } : undefined));
    const capacity = { required: 5_000_000, limit: 0 };
    await world.commands.expandVolume({ namespace: "default", id: "data", capacity, requestId: "" }, caller);
    await world.idle();
    expect((await world.volume("data")).intent).toMatchObject({ op: "expand" });
    const busy = await refusal(api.repair.removeOrphan({ orphanId: orphan.id, ...words, dryRun: true }));
    expect(busy).toMatchObject({ reason: "REPAIR_NOT_APPLICABLE", metadata: { state: "being expanded" } });
    expect(busy.message).toContain("holdfast volume explain data");
    // The backend knows better than the record who has it.
    const inUse = { kind: "refused", advice: "block", code: "FAILED_PRECONDITION" } as const;
    world.backend.chance((method) => (method === "expand" ? inUse : undefined));
    await world.pass(120_000, 5_000);
    await remove(orphan.id);
    world.backend.chance(undefined);
    await world.pass(300_000, 5_000);
    const after = await world.volume("data");
    expect(after).toMatchObject({ attachments: {}, capacity: { actual: 5_000_000 } });
    expect(after.intent).toBeUndefined();
    expect(world.backend.attachments()).toEqual([]);
    await world.claim("job", "n1", ["data"]);
    await world.idle();
    expect(await world.states("job")).toEqual(["ACTIVE"]);
  });

  test("storage is deleted under a record of its own, whose deletion is repeated and explained like any other", async () => {
    await planted();
    const orphan = kindOf(orphansIn(await scan()), OrphanKind.ORPHAN_KIND_STORAGE);
    world.backend.chance((method) => (method === "delete" ? { kind: "dropped" } : undefined));
    const { namespace, volume } = await remove(orphan.id);
    await world.idle();
    expect(await world.volume(volume)).toMatchObject({ state: "DELETING", externalId: "ext-leaked", goal: "absent" });
    expect(namespace).toBe("default");
    world.backend.chance(undefined);
    await world.pass(120_000, 5_000);
    expect(world.backend.volumes()).not.toContain("ext-leaked");
    expect(world.backend.calls.filter((c) => c.startsWith("delete")).every((c) => c === "delete ext-leaked")).toBe(
      true,
    );
    expect(orphansIn(await scan()).map((o) => o.kind)).not.toContain(OrphanKind.ORPHAN_KIND_STORAGE);
  });

  test("names a stored secret as everybody does, of the namespace under which it is removed and of no other", async () => {
    await planted();
    const orphan = kindOf(orphansIn(await scan()), OrphanKind.ORPHAN_KIND_STORAGE);
    for (const namespace of ["default", "other"])
      await world.secrets.putSecret({ namespace, name: "backend", values: { key: "k" }, requestId: "" }, caller);
    const asked = { orphanId: orphan.id, ...words, secrets: { ref: "secret:other/backend" }, dryRun: true };
    expect((await refusal(api.repair.removeOrphan(asked))).violations.map((v) => v.field)).toEqual(["secrets.ref"]);
    const secrets = { ref: "secret:backend" };
    const { outcome } = await api.repair.removeOrphan({ ...asked, secrets });
    world.backend.chance((method) => (method === "delete" ? { kind: "dropped" } : undefined));
    const confirm = outcome?.confirmWith ?? "";
    const { volume } = await api.repair.removeOrphan({ orphanId: orphan.id, ...words, secrets, confirm });
    expect((await world.volume(volume)).secretRefs).toEqual({ delete: "secret:default/backend" });
  });

  test("the same request again answers the first record and removes nothing more", async () => {
    await planted();
    const found = orphansIn(await scan());
    for (const kind of [OrphanKind.ORPHAN_KIND_ATTACHMENT, OrphanKind.ORPHAN_KIND_STORAGE]) {
      const orphan = kindOf(found, kind);
      const first = await remove(orphan.id, { requestId: `r-${kind}` });
      await world.idle();
      const again = await api.repair.removeOrphan({
        orphanId: orphan.id,
        ...words,
        confirm: "",
        requestId: `r-${kind}`,
      });
      expect(again).toEqual(first);
    }
    expect(world.backend.calls.filter((c) => c.startsWith("unpublish") || c.startsWith("delete"))).toHaveLength(2);
  });

  test("of a node that registers and gets the volume before the detach, it is given up and takes nothing away", async () => {
    const { externalId } = await world.makeVolume("data");
    await settled();
    world.backend.attach(externalId, "n4");
    const orphan = kindOf(orphansIn(await scan()), OrphanKind.ORPHAN_KIND_ATTACHMENT);
    expect(orphan.node).toBe("");
    // No call is made yet: the plugin is away.
    world.backend.setFacts({ ready: false });
    await remove(orphan.id);
    await world.idle();
    const intent = (await world.volume("data")).intent;
    expect(intent === undefined || intent.node === "driver:n4").toBe(true);
    world.backend.setFacts({ ready: true });
    world.nodes.set("n4", {});
    await world.claim("job", "n4", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.pass(120_000, 5_000);
    expect(await world.states("job")).toEqual(["ACTIVE"]);
    expect(world.backend.attachments()).toEqual([`${externalId}@n4`]);
    expect(Object.keys((await world.volume("data")).attachments)).toEqual(["n4"]);
  });

  test("two at once with one request id are one", async () => {
    await planted();
    const storage = kindOf(orphansIn(await scan()), OrphanKind.ORPHAN_KIND_STORAGE);
    const { outcome } = await api.repair.removeOrphan({ orphanId: storage.id, ...words, dryRun: true });
    const asked = { orphanId: storage.id, ...words, confirm: outcome?.confirmWith ?? "", requestId: "once" };
    const [a, b] = await Promise.all([api.repair.removeOrphan(asked), api.repair.removeOrphan(asked)]);
    expect(a?.outcome?.auditId).toBe(b?.outcome?.auditId);
    await world.idle();
    expect(world.backend.calls.filter((c) => c.startsWith("delete"))).toEqual(["delete ext-leaked"]);
  });

  test("other words, no evidence, no reason: nothing is done", async () => {
    await planted();
    const orphan = kindOf(orphansIn(await scan()), OrphanKind.ORPHAN_KIND_STORAGE);
    const wrong = await refusal(api.repair.removeOrphan({ orphanId: orphan.id, ...words, confirm: "yes" }));
    expect(wrong.violations.map((v) => v.field)).toEqual(["confirm"]);
    const empty = await refusal(api.repair.removeOrphan({ orphanId: orphan.id, dryRun: true }));
    expect(empty.violations.map((v) => v.field)).toEqual(["evidence", "reason"]);
    expect(await refusal(api.repair.removeOrphan({ orphanId: "none", ...words, dryRun: true }))).toMatchObject({
      reason: "ORPHAN_NOT_FOUND",
    });
    expect(world.backend.volumes()).toContain("ext-leaked");
  });

  test("is refused for what is somebody's by now, mounted, attached, gone, or perhaps being made", async () => {
    const externalId = await planted();
    const found = orphansIn(await scan());
    const storage = kindOf(found, OrphanKind.ORPHAN_KIND_STORAGE).id;
    const attachment = kindOf(found, OrphanKind.ORPHAN_KIND_ATTACHMENT).id;
    const state = async (orphanId: string) =>
      (await refusal(api.repair.removeOrphan({ orphanId, ...words, dryRun: true }))).metadata["state"];
    world.backend.attach("ext-leaked", "n2");
    expect(await state(storage)).toBe("attached");
    world.backend.detach("ext-leaked", "n2");
    world.backend.chance((method) => (method === "create" ? { kind: "lost" } : undefined));
    await world.makeVolume("new");
    expect(await state(storage)).toBe("possibly owned");
    world.backend.chance(undefined);
    await world.pass(60_000, 5_000);
    world.agents.holdFor("n2", externalId, (await world.volume("data")).uid);
    expect(await state(attachment)).toBe("held by its agent");
    world.agents.loseJournal("n2");
    world.backend.detach(externalId, "n2");
    expect(await state(attachment)).toBe("gone");
    world.backend.drop("ext-leaked");
    expect(await state(storage)).toBe("gone");
    expect(await state(kindOf(found, OrphanKind.ORPHAN_KIND_RECORD).id)).toBe("a record");
  });
});

describe("AdoptVolume", () => {
  const capability = {
    accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
    attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  };
  const asked = (externalId: string, volume = "adopted") => ({
    namespace: "default",
    volume,
    plugin,
    externalId,
    capabilities: [capability],
    reason: "ticket 4711",
  });
  const adopt = async (externalId: string, volume?: string) => {
    const request = asked(externalId, volume);
    const { outcome } = await api.repair.adoptVolume({ ...request, dryRun: true });
    return await api.repair.adoptVolume({ ...request, confirm: outcome?.confirmWith ?? "" });
  };

  test("makes a record for storage that a scan found, and keeps the storage when that goes", async () => {
    await planted();
    const { outcome } = await adopt("ext-leaked");
    await world.idle();
    expect(await world.volume("adopted")).toMatchObject({
      state: "AVAILABLE",
      externalId: "ext-leaked",
      policy: { reclaim: "retain" },
    });
    expect((await api.repair.listAudit({ auditId: outcome?.auditId ?? "" })).records).toMatchObject([
      { verb: "AdoptVolume", externalId: "ext-leaked", volume: "adopted" },
    ]);
    expect(orphansIn(await scan()).map((o) => o.externalId)).not.toContain("ext-leaked");
  });

  test("refuses storage that has a record, and an id that is taken", async () => {
    const externalId = await planted();
    expect(await refusal(api.repair.adoptVolume({ ...asked(externalId), dryRun: true }))).toMatchObject({
      reason: "VOLUME_EXISTS",
    });
    expect(await refusal(api.repair.adoptVolume({ ...asked("ext-leaked", "other"), dryRun: true }))).toMatchObject({
      reason: "VOLUME_EXISTS",
    });
  });

  test("gives a volume whose creation ended blocked the storage that was found for it", async () => {
    world.backend.script("create", { kind: "lost" }, { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await world.makeVolume("data");
    await world.pass(60_000, 5_000);
    const { name, blocked } = await world.volume("data");
    expect(blocked?.reason).toBe("CREATE_UNCERTAIN");
    await adopt(`ext-${name}`, "data");
    await world.idle();
    expect(await world.volume("data")).toMatchObject({ state: "AVAILABLE", externalId: `ext-${name}` });
    expect((await world.volume("data")).blocked).toBeUndefined();
    expect(world.backend.calls.filter((c) => c.startsWith("create"))).toHaveLength(2);
  });
});
