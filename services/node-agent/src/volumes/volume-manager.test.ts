import { describe, expect, test } from "vitest";
import {
  anyCaller,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";

const paths = modelPaths.of(volumeRef.plugin, volumeRef.externalId);

const reader = { accessMode: "MULTI_NODE_READER_ONLY", readOnly: true } as const;
const single = { accessMode: "SINGLE_NODE_WRITER" } as const;

describe("a claim's way up and down", () => {
  test("[I4] two syncs up, three syncs down, one call each, nothing left", async () => {
    const agent = await startModelAgent();
    const before = agent.ledger().syncs();
    const up = await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    expect(up).toMatchObject({ kind: "published", hostPath: paths.target("a"), epoch: { gen: 1, ctr: 5 } });
    expect(agent.ledger().syncs() - before).toBe(2);
    const mid = agent.ledger().syncs();
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toEqual({
      kind: "released",
      epoch: { gen: 1, ctr: 5 },
    });
    expect(agent.ledger().syncs() - mid).toBe(3);
    expect(agent.host.calls).toEqual([
      "NodeStageVolume done",
      "NodePublishVolume done",
      "NodeUnpublishVolume done",
      "NodeUnstageVolume done",
    ]);
    expect(agent.host.mountedPaths()).toEqual([]);
  });

  test("[I4] a volume for one workload: both intents of its release are one sync, and the calls keep their order", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5, single), anyCaller);
    const mid = agent.ledger().syncs();
    agent.host.fates.push("lost-before");
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "pending" });
    const { claims, stage } = agent.ledger().volume(volumeRef.volumeUid) ?? {};
    expect([claims?.["a"]?.phase, stage?.phase]).toEqual(["unpublishing", "unstaging"]);
    // Nobody is let in beside it: the stage is not there for another one.
    expect(await agent.volumes().publish(permitOrder("b", 6, single), anyCaller)).toMatchObject({ kind: "refused" });
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    expect(agent.ledger().syncs() - mid).toBe(3);
    expect(agent.host.calls.slice(2)).toEqual([
      "NodeUnpublishVolume lost-before",
      "NodeUnpublishVolume done",
      "NodeUnstageVolume done",
    ]);
  });

  test("[I3] [I4] a permit that meets a stage on its way out is journalled before NodeUnstageVolume", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5, reader), anyCaller);
    agent.host.fates.push("done", "lost-before");
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    const next = permitOrder("b", 6, { ...reader, oldestLiveEpoch: { gen: 1, ctr: 5 } });
    expect(await agent.volumes().publish(next, anyCaller)).toMatchObject({ kind: "published" });
    expect(agent.host.calls.slice(3)).toEqual([
      "NodeUnstageVolume lost-before",
      "NodeUnstageVolume done",
      "NodeStageVolume done",
      "NodePublishVolume done",
    ]);
  });

  test("[I2] two looks at the mounts up, and one at those of every process down: directories tell the rest", async () => {
    const agent = await startModelAgent();
    agent.host.looks.length = 0;
    await agent.volumes().publish(permitOrder("a", 5, single), anyCaller);
    expect(agent.host.looks.splice(0)).toEqual(["own", "own"]);
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    expect(agent.host.looks).toEqual(["everywhere"]);
  });

  test("a plugin that does not stage: two syncs each, no stage, no unstage", async () => {
    const agent = await startModelAgent();
    agent.host.setStages("no");
    const before = agent.ledger().syncs();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    expect(agent.ledger().syncs() - before).toBe(2);
    const mid = agent.ledger().syncs();
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    expect(agent.ledger().syncs() - mid).toBe(2);
    expect(agent.host.calls).toEqual(["NodePublishVolume done", "NodeUnpublishVolume done"]);
  });

  test("two readers, permits reordered: one stage, unstaged after the last, in any order of release", async () => {
    const agent = await startModelAgent();
    const live = { oldestLiveEpoch: { gen: 1, ctr: 5 } };
    expect(await agent.volumes().publish(permitOrder("b", 6, { ...reader, ...live }), anyCaller)).toMatchObject({
      kind: "published",
    });
    expect(await agent.volumes().publish(permitOrder("a", 5, { ...reader, ...live }), anyCaller)).toMatchObject({
      kind: "published",
    });
    expect(await agent.volumes().release(releaseOrder("b", 6), anyCaller)).toMatchObject({ kind: "released" });
    expect(agent.host.mountedPaths()).toEqual([paths.staging, paths.target("a")]);
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
    expect(agent.host.calls.filter((call) => call.startsWith("NodeStage"))).toHaveLength(1);
    expect(agent.host.calls.filter((call) => call.startsWith("NodeUnstage"))).toHaveLength(1);
    expect(agent.host.mountedPaths()).toEqual([]);
  });

  test("the reader whose permit comes late is still let in after the newer one was released", async () => {
    const agent = await startModelAgent();
    const live = { oldestLiveEpoch: { gen: 1, ctr: 5 } };
    await agent.volumes().publish(permitOrder("b", 6, { ...reader, ...live }), anyCaller);
    await agent.volumes().release(releaseOrder("b", 6), anyCaller);
    expect(await agent.volumes().publish(permitOrder("a", 5, { ...reader, ...live }), anyCaller)).toMatchObject({
      kind: "published",
    });
    expect(await agent.volumes().publish(permitOrder("b", 6, { ...reader, ...live }), anyCaller)).toMatchObject({
      kind: "refused",
      reason: "DEAD",
    });
  });

  test("orders at once for one volume run one after the other, each to its end", async () => {
    const agent = await startModelAgent();
    const live = { oldestLiveEpoch: { gen: 1, ctr: 1 } };
    const uids = ["a", "b", "c", "d"];
    const up = await Promise.all(
      uids.map((uid, at) => agent.volumes().publish(permitOrder(uid, at + 1, { ...reader, ...live }), anyCaller)),
    );
    expect(up.map(({ kind }) => kind)).toEqual(["published", "published", "published", "published"]);
    await Promise.all(uids.map((uid, at) => agent.volumes().release(releaseOrder(uid, at + 1), anyCaller)));
    expect(agent.host.calls.filter((call) => call.startsWith("NodeStage"))).toHaveLength(1);
    expect(agent.host.mountedPaths()).toEqual([]);
  });
});

describe("repeats", () => {
  test("a held epoch again: verified, the same answer, no call", async () => {
    const agent = await startModelAgent();
    const first = await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    const syncs = agent.ledger().syncs();
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toEqual(first);
    expect(agent.host.calls).toHaveLength(2);
    expect(agent.ledger().syncs()).toBe(syncs);
  });

  test("a held epoch whose mount is gone: staged and published again under the same epoch", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    agent.host.unmount(paths.target("a"));
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
      kind: "published",
      epoch: { gen: 1, ctr: 5 },
    });
    expect(agent.host.calls.slice(2)).toEqual(["NodeStageVolume done", "NodePublishVolume done"]);
  });

  test("a release again answers the same without a call", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    const calls = agent.host.calls.length;
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toEqual({
      kind: "released",
      epoch: { gen: 1, ctr: 5 },
    });
    expect(agent.host.calls).toHaveLength(calls);
  });

  test("a permit of the same epoch with another mode is no repeat", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    for (const changes of [{ readOnly: true }, { accessMode: "SINGLE_NODE_WRITER" }, { fsType: "xfs" }] as const) {
      expect(await agent.volumes().publish(permitOrder("a", 5, changes), anyCaller)).toMatchObject({
        halt: { reason: "PERMIT_CHANGED" },
      });
    }
  });

  test("a permit of the same epoch with other contexts is neither followed nor refused", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5, { context: { lun: "1" } }), anyCaller);
    const again = await agent.volumes().publish(permitOrder("a", 5, { context: { lun: "2" } }), anyCaller);
    expect(again).toMatchObject({ kind: "uncertain", halt: { reason: "PERMIT_CHANGED", blocked: {} } });
    expect(agent.host.calls).toHaveLength(2);
  });
});

describe("what the plugin refuses", () => {
  test("Stage refused at first: released, not mounted, no undo needed; asked again it says the same", async () => {
    const agent = await startModelAgent();
    agent.host.fates.push("refused");
    const end = {
      kind: "not-mounted",
      failure: { reason: "PLUGIN_REFUSED", method: "NodeStageVolume", code: "INVALID_ARGUMENT" },
    };
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject(end);
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject(end);
    expect(agent.host.calls).toEqual(["NodeStageVolume refused"]);
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
  });

  test("Stage refused after one that was lost: unstaged first", async () => {
    const agent = await startModelAgent();
    agent.host.fates.push("lost-after", "refused");
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
      kind: "uncertain",
      halt: { reason: "DEADLINE_EXCEEDED", method: "NodeStageVolume" },
    });
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "not-mounted" });
    expect(agent.host.calls).toEqual([
      "NodeStageVolume lost-after",
      "NodeStageVolume refused",
      "NodeUnstageVolume done",
    ]);
    expect(agent.host.mountedPaths()).toEqual([]);
  });

  test("Publish refused: what was staged for it is unstaged, and only then it is not mounted", async () => {
    const agent = await startModelAgent();
    agent.host.fates.push("done", "refused");
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "not-mounted" });
    expect(agent.host.calls).toEqual(["NodeStageVolume done", "NodePublishVolume refused", "NodeUnstageVolume done"]);
    expect(agent.host.staged()).toEqual([]);
  });

  test("Publish refused, its undo lost: uncertain until the undo is certain, then not mounted", async () => {
    const agent = await startModelAgent();
    agent.host.fates.push("done", "refused", "lost-before");
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
      kind: "uncertain",
      halt: { method: "NodeUnstageVolume" },
    });
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "not-mounted" });
    expect(agent.host.staged()).toEqual([]);
  });

  test("Publish refused for one reader leaves the other and the stage alone", async () => {
    const agent = await startModelAgent();
    const live = { oldestLiveEpoch: { gen: 1, ctr: 5 } };
    await agent.volumes().publish(permitOrder("a", 5, { ...reader, ...live }), anyCaller);
    agent.host.fates.push("refused");
    expect(await agent.volumes().publish(permitOrder("b", 6, { ...reader, ...live }), anyCaller)).toMatchObject({
      kind: "not-mounted",
    });
    expect(agent.host.mountedPaths()).toEqual([paths.staging, paths.target("a")]);
  });

  test("a refusal that only a person can clear keeps the claim, blocked, and goes on when it is cleared", async () => {
    const agent = await startModelAgent();
    agent.host.fates.push("blocked");
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
      kind: "uncertain",
      halt: { blocked: {} },
    });
    expect(agent.volumes().halts().size).toBe(1);
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
    expect(agent.volumes().halts().size).toBe(0);
  });
});

describe("refused orders", () => {
  test.each([
    ["NODE_EPOCH", permitOrder("b", 7, { nodeEpoch: 2 })],
    ["FLOOR", permitOrder("b", 4)],
    ["ACCESS_CONFLICT", permitOrder("b", 7, single)],
    ["ACCESS_CONFLICT", permitOrder("a", 9, single)],
  ])("[I1] [I3] %s: nothing is journalled, nothing is called", async (reason, order) => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5, single), anyCaller);
    const syncs = agent.ledger().syncs();
    expect(await agent.volumes().publish(order, anyCaller)).toMatchObject({ kind: "refused", reason });
    expect(agent.ledger().syncs()).toBe(syncs);
    expect(agent.host.calls).toHaveLength(2);
  });

  test.each(["SINGLE_NODE_WRITER", "SINGLE_NODE_READER_ONLY", "SINGLE_NODE_SINGLE_WRITER"] as const)(
    "[I1] %s takes one workload, and the refusal names it",
    async (accessMode) => {
      const agent = await startModelAgent();
      await agent.volumes().publish(permitOrder("a", 5, { accessMode }), anyCaller);
      const second = permitOrder("b", 6, { accessMode, oldestLiveEpoch: { gen: 1, ctr: 5 } });
      expect(await agent.volumes().publish(second, anyCaller)).toMatchObject({
        reason: "ACCESS_CONFLICT",
        holderClaimUid: "a",
      });
    },
  );

  test("[I1] the same storage under another record is refused while it is held", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    const other = { ...permitOrder("b", 1), ref: { ...volumeRef, volume: "copy", volumeUid: "uid-2" } };
    expect(await agent.volumes().publish(other, anyCaller)).toMatchObject({
      reason: "ACCESS_CONFLICT",
      holderClaimUid: "a",
    });
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    expect(await agent.volumes().publish(other, anyCaller)).toMatchObject({ kind: "published" });
  });

  test("a release of a permit that never came kills its epoch: the permit is refused when it comes", async () => {
    const agent = await startModelAgent();
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toEqual({
      kind: "released",
      epoch: { gen: 1, ctr: 5 },
    });
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
      kind: "refused",
      reason: "DEAD",
    });
    await agent.start();
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
      kind: "refused",
      reason: "DEAD",
    });
    expect(agent.host.calls).toEqual([]);
  });

  test("[I2] a release under an older epoch than the one held is no release", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    expect(await agent.volumes().release(releaseOrder("a", 4), anyCaller)).toMatchObject({
      kind: "refused",
      reason: "FLOOR",
    });
    expect(agent.host.mountedPaths()).toContain(paths.target("a"));
  });

  test("a fenced node takes no permits and does take releases", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    agent.setQuarantined(true);
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ reason: "QUARANTINED" });
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
  });

  test("[I1] an agent that lived through its fence honours no permit from before it, neither in quarantine nor after it", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    // It hears of the fence, as at its next registration.
    agent.setQuarantined(true);
    await agent.ledger().commitAgent({ type: "node-epoch", nodeEpoch: 2, clusterUid: "cluster-1" });
    const before = agent.host.calls.length;
    for (const epoch of [5, 6])
      expect(await agent.volumes().publish(permitOrder("a", epoch), anyCaller)).toMatchObject({
        reason: "QUARANTINED",
      });
    agent.setQuarantined(false);
    for (const epoch of [5, 6])
      expect(await agent.volumes().publish(permitOrder("a", epoch), anyCaller)).toMatchObject({ reason: "NODE_EPOCH" });
    expect(agent.host.calls.slice(before)).toEqual([]);
  });

  test("a promised generation holds over a restart", async () => {
    const agent = await startModelAgent();
    await agent.ledger().commitAgent({ type: "promised-gen", gen: 2 });
    await agent.start();
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ reason: "GENERATION" });
  });
});

describe("[I2] verified before released", () => {
  test("Unpublish says OK and the mount stays: pending, blocked, asked again", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    agent.host.addMount(`${paths.target("a")}/below`, "9:9", "/");
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({
      kind: "pending",
      halt: { reason: "STILL_MOUNTED", blocked: { clearWith: `umount ${paths.target("a")}/below` } },
    });
    agent.host.unmount(`${paths.target("a")}/below`);
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
  });

  test("a private copy in another mount namespace keeps a single-node volume, and names who has it", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5, single), anyCaller);
    const line = {
      id: 99,
      parent: 1,
      device: "9:1",
      root: "/ext-1",
      path: "/in/container",
      options: ["rw"],
      fsType: "ext4",
      source: "x",
      superOptions: "rw",
    };
    agent.host.addForeign(line, 4711);
    const pending = {
      kind: "pending",
      halt: { reason: "MOUNT_HELD", holder: { pid: 4711, command: "sleep", path: "/in/container" } },
    };
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject(pending);
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject(pending);
    await agent.start();
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject(pending);
    agent.host.clearForeign();
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
    expect(agent.host.calls.filter((call) => call.startsWith("NodeUnstage"))).toHaveLength(1);
  });

  test("the host's own mounts of the same file system do not count when they were there first", async () => {
    const agent = await startModelAgent();
    agent.host.addMount("/srv/pool", "9:1", "/ext-1");
    await agent.volumes().publish(permitOrder("a", 5, single), anyCaller);
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
  });

  test("a mount that appeared elsewhere since does count", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5, single), anyCaller);
    agent.host.addMount("/srv/later", "9:1", "/ext-1");
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({
      kind: "pending",
      halt: { holder: { path: "/srv/later" } },
    });
  });
});

describe("lives", () => {
  test("a restart with everything in place: no call is made, the next claim stages nothing", async () => {
    const agent = await startModelAgent();
    const live = { oldestLiveEpoch: { gen: 1, ctr: 5 } };
    await agent.volumes().publish(permitOrder("a", 5, { ...reader, ...live }), anyCaller);
    await agent.start();
    expect(await agent.volumes().publish(permitOrder("a", 5, { ...reader, ...live }), anyCaller)).toMatchObject({
      kind: "published",
    });
    expect(await agent.volumes().publish(permitOrder("b", 6, { ...reader, ...live }), anyCaller)).toMatchObject({
      kind: "published",
    });
    expect(agent.host.calls).toEqual(["NodeStageVolume done", "NodePublishVolume done", "NodePublishVolume done"]);
  });

  test("a reboot: the repeated permit stages and publishes under the same epoch", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    await agent.start({ rebooted: true });
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
    expect(agent.host.calls.slice(2)).toEqual(["NodeStageVolume done", "NodePublishVolume done"]);
  });

  test("after a lost journal: an orphan blocks strangers, its own permit takes it over, its release undoes it", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5, reader), anyCaller);
    await agent.start({ lostJournal: true });
    expect((await agent.volumes().inventory()).orphans.map(({ path }) => path)).toEqual([
      paths.staging,
      paths.target("a"),
    ]);
    const stranger = permitOrder("b", 6, { ...reader, nodeEpoch: 2, oldestLiveEpoch: { gen: 1, ctr: 5 } });
    expect(await agent.volumes().publish(stranger, anyCaller)).toMatchObject({
      kind: "uncertain",
      halt: { reason: "ORPHAN_MOUNT", blocked: {} },
    });
    expect(await agent.volumes().publish(permitOrder("a", 5, { ...reader, nodeEpoch: 2 }), anyCaller)).toMatchObject({
      kind: "published",
    });
    expect((await agent.volumes().inventory()).orphans).toEqual([]);
    await agent.start({ lostJournal: true });
    expect(await agent.volumes().release(releaseOrder("a", 5, 3), anyCaller)).toMatchObject({ kind: "released" });
    expect(agent.host.mountedPaths()).toEqual([]);
    expect(agent.host.staged()).toEqual([]);
  });

  test("[I2] after a lost journal one release is not proof while another orphan of the volume is there", async () => {
    const agent = await startModelAgent();
    const live = { oldestLiveEpoch: { gen: 1, ctr: 5 } };
    await agent.volumes().publish(permitOrder("a", 5, { ...reader, ...live }), anyCaller);
    await agent.volumes().publish(permitOrder("b", 6, { ...reader, ...live }), anyCaller);
    await agent.start({ lostJournal: true });
    expect(await agent.volumes().release(releaseOrder("a", 5, 2), anyCaller)).toMatchObject({ kind: "pending" });
    expect(await agent.volumes().release(releaseOrder("b", 6, 2), anyCaller)).toMatchObject({ kind: "released" });
    expect(await agent.volumes().release(releaseOrder("a", 5, 2), anyCaller)).toMatchObject({ kind: "released" });
    expect(agent.host.mountedPaths()).toEqual([]);
  });

  test("a caller that went away: the release is done all the same, and told until it is forgotten", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    const caller = new AbortController();
    agent.host.fates.push("done");
    const release = agent.volumes().release(releaseOrder("a", 5), caller.signal);
    await Promise.resolve();
    caller.abort(new Error("gone"));
    await release;
    expect(agent.ledger().volume("uid-1")?.dead).toMatchObject([{ claimUid: "a", late: true }]);
    await agent.volumes().forget(volumeRef, "a");
    expect(agent.ledger().volume("uid-1")?.dead).toMatchObject([{ claimUid: "a", late: false }]);
  });

  test("a plugin that is away: nothing is journalled for a new claim, a release waits and goes on", async () => {
    const agent = await startModelAgent();
    agent.host.setPluginAway(true);
    const syncs = agent.ledger().syncs();
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({
      kind: "uncertain",
      halt: { reason: "PLUGIN_NOT_READY" },
    });
    expect(agent.ledger().syncs()).toBe(syncs);
    agent.host.setPluginAway(false);
    await agent.volumes().publish(permitOrder("a", 5), anyCaller);
    agent.host.setPluginAway(true);
    expect(await agent.volumes().publish(permitOrder("a", 5), anyCaller)).toMatchObject({ kind: "published" });
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({
      kind: "pending",
      halt: { reason: "PLUGIN_NOT_READY" },
    });
    agent.host.setPluginAway(false);
    expect(await agent.volumes().release(releaseOrder("a", 5), anyCaller)).toMatchObject({ kind: "released" });
  });

  test("[I10] no secret and no context value reaches the journal", async () => {
    const agent = await startModelAgent();
    await agent.volumes().publish(permitOrder("a", 5, { context: { token: "canary-context" } }), anyCaller);
    await agent.volumes().release(releaseOrder("a", 5), anyCaller);
    expect(JSON.stringify(agent.disk().records)).not.toContain("canary");
  });
});
