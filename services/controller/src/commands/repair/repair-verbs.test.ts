import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { caller, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { foreignNoted } from "../../domain/attachment/foreign-hold.ts";
import type { Asked, RepairOutcome } from "./repair-model.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
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

const dry: Asked = { reason: "ticket 4711", dryRun: true, confirm: "", requestId: "" };

/** As a person does it: dry run, then the same with the words that it answered. */
const twice = async (
  run: (asked: Asked) => Promise<RepairOutcome>,
  change: Partial<Asked> = {},
): Promise<RepairOutcome> => {
  const { confirmWith } = await run(dry);
  return await run({ ...dry, dryRun: false, confirm: confirmWith, ...change });
};

/** `data` is held by `job` on n1, whose agent then says nothing any more; the claim is to be released. */
const stranded = async (live: "alive" | "suspect" = "suspect") => {
  await world.makeVolume("data");
  const [view] = await world.claim("job", "n1", ["data"]);
  await world.idle();
  world.agents.silence("n1", true);
  if (live === "suspect") world.nodes.set("n1", {}, live);
  await world.release("job");
  await world.idle();
  const claimUid = view?.claim.uid ?? "";
  const target = {
    namespace: "default",
    volume: "data",
    workload: "job",
    alias: "",
    claimUid,
    evidence: "vm destroyed",
  };
  return { claimUid, abandon: (asked: Asked) => world.repair.abandonClaim({ ...target, ...asked }, caller), target };
};

const registered = (node: string) => world.nodes.get(node)?.record ?? expect.fail();

describe("AbandonClaim", () => {
  test("a dry run says what would happen and writes nothing", async () => {
    const { abandon } = await stranded();
    const commits = world.store.commits();
    const outcome = await abandon(dry);
    expect(outcome).toMatchObject({ dryRun: true, auditId: "" });
    expect(outcome.effects.join("\n")).toContain("the agent of node n1 was not heard");
    expect(outcome.risks.join("\n")).toContain("write at the same time");
    expect(world.store.commits()).toBe(commits);
    expect(await world.states("job")).toEqual(["RELEASING"]);
  });

  test("other words than those of the dry run do nothing", async () => {
    const { abandon } = await stranded();
    const error = await refusal(abandon({ ...dry, dryRun: false, confirm: "yes" }));
    expect(error.violations).toMatchObject([{ field: "confirm" }]);
    expect(await world.states("job")).toEqual(["RELEASING"]);
    expect(
      (
        await world.repair.listAudit(
          { auditId: "", namespace: "", volume: "", verb: "" },
          { size: 9, after: undefined },
        )
      ).items,
    ).toEqual([]);
  });

  test("frees the volume for the next holder and leaves a record that can be read", async () => {
    const { abandon, claimUid } = await stranded();
    // The machine is off: nothing is mounted there any more.
    world.agents.loseJournal("n1");
    const outcome = await twice(abandon);
    await world.idle();
    expect(world.backend.attachments()).toEqual([]);
    expect(await world.states("job")).toEqual(["FAILED"]);
    await world.claim("next", "n2", ["data"]);
    await world.idle();
    expect(await world.states("next")).toEqual(["ACTIVE"]);
    const audit = await world.repair.listAudit(
      { auditId: outcome.auditId, namespace: "", volume: "", verb: "" },
      { size: 9, after: undefined },
    );
    expect(audit.items).toMatchObject([
      {
        verb: "AbandonClaim",
        who: caller.who,
        reason: "ticket 4711",
        evidence: "vm destroyed",
        effects: outcome.effects,
        subject: { namespace: "default", volume: "data", node: "n1", workload: "job", claimUid },
      },
    ]);
  });

  test("[I5] lets go of what the node still has mounted once it speaks again, also while the detach is not done", async () => {
    const { abandon } = await stranded();
    world.backend.chance((method) => (method === "unpublish" ? { kind: "dropped" } : undefined));
    await twice(abandon);
    await world.pass(5_000);
    expect(await world.states("job")).toEqual(["DETACHING"]);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    // The very same agent: the network was away, and nothing on the host has changed.
    world.agents.silence("n1", false);
    world.nodes.set("n1", {}, "alive");
    await world.idle();
    expect(world.agents.mounts()).toEqual([]);
    world.backend.chance(undefined);
    await world.pass(120_000);
    expect(await world.states("job")).toEqual(["FAILED"]);
    expect(world.backend.attachments()).toEqual([]);
  });

  test("[I5] also of an agent that beats and could only not be asked, for the plugin that knows no attachments", async () => {
    world.backend.setFacts({ attaches: "no" });
    const { abandon } = await stranded("alive");
    await twice(abandon);
    await world.clock.advance(60_000);
    expect(await world.states("job")).toEqual(["FAILED"]);
    expect(world.agents.mounts()).toEqual(["default/data@n1"]);
    world.agents.silence("n1", false);
    for (let n = 0; n < 5; n += 1) await world.clock.advance(60_000);
    await world.idle();
    expect(world.agents.mounts()).toEqual([]);
  });

  test("is refused while the node answers and holds the mount, whatever the caller says", async () => {
    const { abandon } = await stranded();
    world.agents.silence("n1", false);
    expect(await refusal(abandon(dry))).toMatchObject({
      reason: "REPAIR_NOT_APPLICABLE",
      metadata: { state: "held by its agent", node: "n1" },
    });
  });

  test("[I1] what only an agent knows is not given away by words that were asked for while the agent was heard", async () => {
    await world.makeVolume("data");
    const hold = { claimUid: "lost", workload: "job", alias: "data", epoch: { gen: 1, ctr: 1 } };
    await world.records.change({ namespace: "default", id: "data" }, (v, at) =>
      foreignNoted(v, registered("n1"), [hold], at.now),
    );
    const { epoch: _epoch, ...named } = hold;
    const target = { namespace: "default", volume: "data", ...named, evidence: "it was stopped" };
    const abandon = (asked: Asked) => world.repair.abandonClaim({ ...target, ...asked }, caller);
    const { confirmWith } = await abandon(dry);
    world.agents.silence("n1", true);
    const error = await refusal(abandon({ ...dry, dryRun: false, confirm: confirmWith }));
    expect(error.violations).toMatchObject([{ field: "confirm" }]);
    expect((await world.volume("data")).foreign).toHaveLength(1);
    expect((await twice(abandon)).effects.join("\n")).toContain("is granted again at once");
    expect((await world.volume("data")).foreign).toBeUndefined();
  });

  test("[I1] of what a machine holds that had the name in a history that is lost asks no other one, and frees the volume at once", async () => {
    await world.makeVolume("data");
    const hold = { claimUid: "lost", workload: "job", alias: "data", epoch: { gen: 1, ctr: 1 } };
    const copy = { ...registered("n1"), bootId: "boot of the copy" };
    await world.records.change({ namespace: "default", id: "data" }, (v, at) => foreignNoted(v, copy, [hold], at.now));
    const { epoch: _epoch, ...named } = hold;
    const target = { namespace: "default", volume: "data", ...named, evidence: "the copy was deleted" };
    const { confirmWith, effects } = await world.repair.abandonClaim({ ...target, ...dry }, caller);
    expect(confirmWith).toContain("and nothing of it is mounted there");
    expect(effects.join("\n")).toContain("node n1 is another machine now");
    await world.repair.abandonClaim({ ...target, ...dry, dryRun: false, confirm: confirmWith }, caller);
    expect((await world.volume("data")).foreign).toBeUndefined();
  });

  test("what was given up and not let go of is said so, and given up for good when its agent is silent", async () => {
    await world.makeVolume("data");
    const hold = { claimUid: "lost", workload: "job", alias: "data", epoch: { gen: 1, ctr: 1 } };
    const note = () =>
      world.records.change({ namespace: "default", id: "data" }, (v, at) =>
        foreignNoted(v, registered("n1"), [hold], at.now),
      );
    await note();
    const { epoch: _epoch, ...named } = hold;
    const target = { namespace: "default", volume: "data", ...named, evidence: "it was stopped" };
    const abandon = (asked: Asked) => world.repair.abandonClaim({ ...target, ...asked }, caller);
    expect((await twice(abandon)).effects.join("\n")).toContain("is told to unmount claim lost");
    await note();
    const again = await refusal(abandon(dry));
    expect(again).toMatchObject({ reason: "REPAIR_NOT_APPLICABLE", metadata: { state: "FAILED", node: "n1" } });
    expect(again.message).toContain("it is over, and node n1 is told to unmount it");
    world.agents.silence("n1", true);
    await note();
    expect((await twice(abandon)).effects.join("\n")).toContain("is granted again at once");
    expect((await world.volume("data")).foreign).toBeUndefined();
  });

  test.each([
    ["its node held when the store was vetted, is given up when that node is silent", false],
    ["a copy of its node held then, is given up although that node answers", true],
  ])("[I2] [I6] a claim that waits for its detach, and that %s", async (_what, isCopy) => {
    await world.makeVolume("data");
    const [view] = await world.claim("job", "n1", ["data"]);
    await world.idle();
    world.backend.script("unpublish", { kind: "dropped" });
    await world.release("job");
    await world.idle();
    const claimUid = view?.claim.uid ?? "";
    const ref = { namespace: "default", id: "data" };
    const teller = { ...registered("n1"), ...(isCopy ? { bootId: "boot of the copy" } : {}) };
    const hold = { claimUid, workload: "job", alias: "data", epoch: { gen: 1, ctr: 1 } };
    await world.records.change(ref, (v, at) => foreignNoted(v, teller, [hold], at.now));
    await world.pass(120_000);
    expect(await world.states("job")).toEqual(["DETACHING"]);
    const target = { namespace: "default", volume: "data", workload: "job", alias: "data", claimUid, evidence: "off" };
    const abandon = (asked: Asked) => world.repair.abandonClaim({ ...target, ...asked }, caller);
    if (!isCopy) {
      expect(await refusal(abandon(dry))).toMatchObject({ metadata: { state: "DETACHING", node: "n1" } });
      world.agents.silence("n1", true);
    }
    expect((await twice(abandon)).effects.join("\n")).toContain("is detached from node n1");
    await world.pass(120_000);
    expect(await world.states("job")).toEqual(["RELEASED"]);
  });

  test("is refused for a claim that nobody wants released, and for one that is over", async () => {
    await world.makeVolume("data");
    const [view] = await world.claim("job", "n1", ["data"]);
    await world.idle();
    world.agents.loseJournal("n1");
    const target = {
      namespace: "default",
      volume: "data",
      workload: "job",
      alias: "",
      claimUid: view?.claim.uid ?? "",
      evidence: "off",
    };
    const ask = () => refusal(world.repair.abandonClaim({ ...target, ...dry }, caller));
    expect(await ask()).toMatchObject({ reason: "REPAIR_NOT_APPLICABLE", metadata: { state: "ACTIVE" } });
    await world.release("job");
    await world.idle();
    expect(await ask()).toMatchObject({ reason: "REPAIR_NOT_APPLICABLE", metadata: { state: "RELEASED" } });
    expect(await refusal(world.repair.abandonClaim({ ...target, ...dry, claimUid: "other" }, caller))).toMatchObject({
      reason: "CLAIM_NOT_FOUND",
    });
  });

  test("all that is wrong with a request is said at once", async () => {
    const bad = {
      namespace: "A",
      volume: "",
      workload: "",
      alias: "",
      claimUid: "",
      evidence: " ",
      ...dry,
      reason: "",
    };
    const { violations } = await refusal(world.repair.abandonClaim(bad, caller));
    expect(violations.map(({ field }) => field)).toEqual([
      "namespace",
      "volume",
      "workload",
      "claim_uid",
      "evidence",
      "reason",
    ]);
  });

  test.each(["before", "after"] as const)(
    "a commit whose answer is lost (%s it was stored) is made once",
    async (when) => {
      const { abandon } = await stranded();
      world.agents.loseJournal("n1");
      const { confirmWith } = await abandon(dry);
      world.store.loseCommits(when);
      const outcome = await abandon({ ...dry, dryRun: false, confirm: confirmWith });
      const { items } = await world.repair.listAudit(
        { auditId: "", namespace: "default", volume: "data", verb: "AbandonClaim" },
        { size: 9, after: undefined },
      );
      expect(items.map(({ id }) => id)).toEqual([outcome.auditId]);
    },
  );

  test("the same request again answers the first record; another subject under its id is refused", async () => {
    const { abandon, target } = await stranded();
    world.agents.loseJournal("n1");
    const { confirmWith } = await abandon(dry);
    const asked = { ...dry, dryRun: false, confirm: confirmWith, requestId: "r-1" };
    const first = await abandon(asked);
    await world.idle();
    const again = await abandon(asked);
    expect(again).toEqual(first);
    expect(world.backend.calls.filter((c) => c.startsWith("unpublish"))).toHaveLength(1);
    expect(
      await refusal(world.repair.abandonClaim({ ...target, ...asked, claimUid: "another" }, caller)),
    ).toMatchObject({ reason: "REQUEST_ID_REUSED", metadata: { audit_id: first.auditId } });
  });

  test("two at once with one request id are one", async () => {
    const { abandon } = await stranded();
    world.agents.loseJournal("n1");
    const { confirmWith } = await abandon(dry);
    const asked = { ...dry, dryRun: false, confirm: confirmWith, requestId: "r-1" };
    const [a, b] = await Promise.all([abandon(asked), abandon(asked)]);
    expect(a?.auditId).toBe(b?.auditId);
  });
});

/** The detach of `data` from n1 is answered with NOT_FOUND, which proves nothing. */
const unproven = async (absent: "yes" | "no" | "unknown") => {
  await world.makeVolume("data");
  await world.claim("job", "n1", ["data"]);
  await world.idle();
  world.backend.setAbsence("unknown");
  const refused = { kind: "unknown", advice: "check-absence", code: "NOT_FOUND" } as const;
  world.backend.chance((method) => (method === "unpublish" ? refused : undefined));
  await world.release("job");
  await world.idle();
  world.backend.setAbsence(absent);
  const target = { namespace: "default", volume: "data", node: "n1", evidence: "seen in the console" };
  return (asked: Asked) => world.repair.assertDetached({ ...target, ...asked }, caller);
};

describe("AssertDetached", () => {
  test("takes a person's word where the plugin gives none, and repeats no call", async () => {
    const assert = await unproven("unknown");
    expect((await world.volume("data")).attachments["n1"]?.state).toBe("DETACHING");
    const calls = world.backend.calls.length;
    const { auditId } = await twice(assert);
    await world.pass(120_000, 10_000);
    expect(world.backend.calls.length).toBe(calls);
    expect((await world.volume("data")).attachments).toEqual({});
    expect(await world.states("job")).toEqual(["RELEASED"]);
    expect((await world.audit.get(auditId))?.subject).toMatchObject({ node: "n1", externalId: expect.any(String) });
  });

  test("is refused while the backend shows the attachment", async () => {
    const assert = await unproven("no");
    expect(await refusal(assert(dry))).toMatchObject({
      reason: "REPAIR_NOT_APPLICABLE",
      metadata: { state: "shown by the backend" },
    });
  });

  test("is refused while the agent still shows the mount", async () => {
    const { abandon } = await stranded();
    const refused = { kind: "unknown", advice: "check-absence", code: "NOT_FOUND" } as const;
    world.backend.setAbsence("unknown");
    world.backend.chance((method) => (method === "unpublish" ? refused : undefined));
    await twice(abandon);
    await world.idle();
    // The node that was said to be off is back, and its mount with it.
    world.agents.silence("n1", false);
    const target = { namespace: "default", volume: "data", node: "n1", evidence: "sure" };
    expect(await refusal(world.repair.assertDetached({ ...target, ...dry }, caller))).toMatchObject({
      reason: "REPAIR_NOT_APPLICABLE",
      metadata: { state: "held by its agent" },
    });
  });

  test("is refused where no detach is owed", async () => {
    await world.makeVolume("data");
    const target = { namespace: "default", volume: "data", node: "n1", evidence: "sure" };
    const ask = () => refusal(world.repair.assertDetached({ ...target, ...dry }, caller));
    expect(await ask()).toMatchObject({ reason: "REPAIR_NOT_APPLICABLE", metadata: { state: "not on record" } });
    expect(await refusal(world.repair.assertDetached({ ...target, ...dry, volume: "none" }, caller))).toMatchObject({
      reason: "VOLUME_NOT_FOUND",
    });
  });
});

describe("ForgetVolume", () => {
  const forget = (uid: string) => (asked: Asked) =>
    world.repair.forgetVolume({ namespace: "default", id: "data", uid, ...asked }, caller);

  test("drops the record, calls no plugin and leaves a tombstone that knows the storage", async () => {
    const { uid, externalId } = await world.makeVolume("data");
    const calls = world.backend.calls.length;
    await twice(forget(uid));
    expect(world.backend.calls.length).toBe(calls);
    expect(await world.records.get({ namespace: "default", id: "data" })).toBeUndefined();
    expect(await world.records.deleted({ namespace: "default", id: "data" })).toMatchObject({ uid, externalId });
  });

  test("only this life, and not while a node that is well has a claim on it", async () => {
    const { uid } = await world.makeVolume("data");
    expect(await refusal(forget("other")(dry))).toMatchObject({ reason: "REPAIR_NOT_APPLICABLE" });
    await world.claim("job", "n1", ["data"]);
    await world.idle();
    expect(await refusal(forget(uid)(dry))).toMatchObject({ reason: "VOLUME_IN_USE" });
    world.agents.silence("n1", true);
    expect(await refusal(forget(uid)(dry))).toMatchObject({ reason: "VOLUME_IN_USE" });
    world.nodes.set("n1", {}, "suspect");
    world.agents.loseJournal("n1");
    const { effects } = await twice(forget(uid));
    expect(effects.join("\n")).toContain("ends FAILED");
    expect(await world.states("job")).toEqual(["FAILED"]);
  });

  test("[I6] ends the whole set of a claim that waits for it, so that no part of one is ever granted", async () => {
    const { uid } = await world.makeVolume("data");
    await world.makeVolume("other");
    world.nodes.set("n1", {}, "suspect");
    await world.claim("job", "n1", ["data", "other"], { queue: { enabled: true, deadlineMs: undefined } });
    await twice(forget(uid));
    world.nodes.set("n1", {}, "alive");
    await world.idle();
    expect(await world.states("job")).toEqual(["FAILED", "FAILED"]);
    expect(world.backend.attachments()).toEqual([]);
  });
});

describe("ListStuck", () => {
  test("everything that is blocked and nothing else, with its age and what clears it", async () => {
    await world.makeVolume("well");
    await unproven("unknown");
    const { items } = await world.repair.listStuck(
      { namespace: "", plugin: "", node: "", reasons: [] },
      { size: 10, after: undefined },
    );
    expect(items).toMatchObject([
      {
        workload: "job",
        node: "n1",
        state: "DETACHING",
        blocked: {
          reason: "DETACH_UNPROVEN",
          clearWith: "holdfast repair assert-detached data n1 --namespace default",
        },
      },
    ]);
    expect(items[0]?.blocked.since).toBeLessThanOrEqual(world.clock.now());
    const none = { namespace: "", plugin: "", node: "", reasons: ["MOUNT_HELD"] };
    expect((await world.repair.listStuck(none, { size: 10, after: undefined })).items).toEqual([]);
  });
});
