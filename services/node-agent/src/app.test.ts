import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { AgentServiceDefinition, HeldState, StagingState } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { PluginHealth } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { HealthDefinition } from "nice-grpc-server-health";
import { describe, expect, onTestFinished, test } from "vitest";
import { type AgentRig, isRoot, journalText, pluginName, type RigClaim, startRig } from "./testing/agent-rig.ts";

const reader = { accessMode: AccessMode.ACCESS_MODE_MULTI_NODE_READER_ONLY, readOnly: true, oldestLive: 1 } as const;
const callsOf = (rig: AgentRig, method: string) => rig.plugin.backend.record().filter((call) => call.method === method);

describe.skipIf(!isRoot)("an agent process with a real plugin and real mounts", () => {
  test("a file system comes, is written to, and goes; the data is there the next time", async () => {
    const rig = await startRig();
    await rig.start();
    const up = await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    const at = up.published?.hostPath ?? "";
    expect(at).toMatch(new RegExp(`^${rig.rootDir}/publish/[0-9a-f]{32}/[0-9a-f]{32}$`));
    expect(Number(up.published?.mountId)).toBeGreaterThan(0);
    await writeFile(path.join(at, "hello"), "there");
    expect((await rig.release({ uid: "a", ctr: 1 })).released?.epoch).toEqual({ gen: 1n, ctr: 1n });
    expect(rig.mountsBelowRoot()).toEqual([]);
    expect(await readdir(path.join(rig.rootDir, "staging"))).toEqual([]);
    expect(await readdir(path.join(rig.rootDir, "publish"))).toEqual([]);
    const again = await rig.publishUntilSettled({ uid: "b", ctr: 2 });
    expect(await readFile(path.join(again.published?.hostPath ?? "", "hello"), "utf8")).toBe("there");
    await rig.releaseUntilSettled({ uid: "b", ctr: 2 });
    expect(rig.plugin.backend.violations()).toEqual([]);
  });

  test("a raw block device: the answer names the device, and it goes", async () => {
    const rig = await startRig();
    await rig.start();
    const up = await rig.publishUntilSettled({ uid: "a", ctr: 1, block: true });
    expect(up.published?.device).toMatchObject({ path: expect.stringMatching(/^\/dev\/loop\d+$/), major: 7 });
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    expect(rig.mountsBelowRoot()).toEqual([]);
    expect(await readdir(path.join(rig.rootDir, "publish"))).toEqual([]);
    expect(rig.plugin.backend.violations()).toEqual([]);
  });

  test("drivers that mount below the staging path, or nowhere until publish, or do not stage at all", async () => {
    for (const host of [{ stageStyle: "subdir" }, { stageStyle: "none" }] as const) {
      const rig = await startRig({ host });
      await rig.start();
      await rig.publishUntilSettled({ uid: "a", ctr: 1 });
      await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
      expect(rig.mountsBelowRoot()).toEqual([]);
      expect(rig.plugin.backend.violations()).toEqual([]);
    }
    const without = ["controller.PUBLISH_UNPUBLISH_VOLUME", "node.STAGE_UNSTAGE_VOLUME"] as const;
    const rig = await startRig({ backend: { capabilities: { without: [...without] } } });
    await rig.start();
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    expect(callsOf(rig, "NodeStageVolume")).toEqual([]);
    expect(callsOf(rig, "NodeUnstageVolume")).toEqual([]);
    expect(rig.plugin.backend.violations()).toEqual([]);
  });

  test.each(["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"] as const)(
    "[I5] the answer of %s is lost, the work done: the same end, no forbidden call",
    async (method) => {
      const rig = await startRig();
      await rig.start();
      rig.plugin.backend.setFaults([{ method, dropReply: true }]);
      await rig.publishUntilSettled({ uid: "a", ctr: 1 });
      await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
      expect(callsOf(rig, method)).toHaveLength(2);
      expect(rig.mountsBelowRoot()).toEqual([]);
      expect(rig.plugin.backend.violations()).toEqual([]);
    },
  );

  test("a plugin that is killed and comes back is used again by itself", async () => {
    const rig = await startRig();
    await rig.start();
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    rig.plugin.kill();
    expect((await rig.release({ uid: "a", ctr: 1 })).pending?.reason).toBe("PLUGIN_NOT_READY");
    await expect.poll(() => rig.controller.fingerprints()).toEqual([]);
    await rig.plugin.restart();
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    await expect
      .poll(() => rig.controller.fingerprints().map(({ health, nodeId }) => [health, nodeId]))
      .toEqual([[PluginHealth.PLUGIN_HEALTH_HEALTHY, "node-a"]]);
  });

  test("[I2] a container's private copy of the mount: not released, the process is named, released once it is gone", async () => {
    const rig = await startRig();
    await rig.start();
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    const holder = spawn("unshare", ["--mount", "--propagation", "private", "sleep", "60"]);
    onTestFinished(() => void holder.kill("SIGKILL"));
    await once(holder, "spawn");
    const isAlone = () => readFile(`/proc/${holder.pid}/comm`, "utf8");
    await expect.poll(isAlone).toBe("sleep\n");
    const pending = await rig.release({ uid: "a", ctr: 1 });
    expect(pending.pending).toMatchObject({
      reason: "MOUNT_HELD",
      blocked: true,
      holder: { pid: BigInt(holder.pid ?? 0), command: "sleep" },
    });
    holder.kill("SIGKILL");
    await once(holder, "exit");
    expect((await rig.releaseUntilSettled({ uid: "a", ctr: 1 })).released).toBeDefined();
  });

  test("a mount that somebody took away is made again under the same epoch", async () => {
    const rig = await startRig();
    await rig.start();
    const up = await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    spawnSync("umount", [up.published?.hostPath ?? ""]);
    expect((await rig.publishUntilSettled({ uid: "a", ctr: 1 })).published?.epoch).toEqual({ gen: 1n, ctr: 1n });
    expect(rig.mountsBelowRoot()).toHaveLength(2);
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
  });

  test("the agent restarted while its plugin and its controller are away: mounts stay, reads go on", async () => {
    const rig = await startRig();
    await rig.start();
    await rig.publishUntilSettled({ uid: "a", ctr: 1, ...reader });
    const before = rig.mountsBelowRoot();
    rig.plugin.kill();
    rig.signal("SIGKILL");
    await rig.exited();
    await rig.start();
    expect(rig.mountsBelowRoot()).toEqual(before);
    expect((await rig.publish({ uid: "a", ctr: 1, ...reader })).published).toBeDefined();
    await rig.plugin.restart();
    await rig.publishUntilSettled({ uid: "b", ctr: 2, ...reader });
    expect(callsOf(rig, "NodeStageVolume")).toHaveLength(1);
    for (const [uid, ctr] of [
      ["a", 1],
      ["b", 2],
    ] as const)
      await rig.releaseUntilSettled({ uid, ctr });
    expect(rig.mountsBelowRoot()).toEqual([]);
  });

  test("[I5] the state directory is lost: a new node epoch, the mounts are orphans until their release undoes them", async () => {
    const rig = await startRig();
    await rig.start();
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    const epochBefore = rig.controller.nodeEpoch();
    rig.signal("SIGKILL");
    await rig.exited();
    await rm(rig.stateDir, { recursive: true });
    await rig.start();
    expect(rig.controller.nodeEpoch()).toBe(epochBefore + 1);
    const orphans = (await rig.inventory()).flatMap(({ orphan }) => orphan ?? []);
    expect(orphans.map(({ path: at }) => at).sort()).toEqual([...rig.mountsBelowRoot()].sort());
    await expect
      .poll(async () => (await rig.publish({ uid: "b", ctr: 2 })).uncertain)
      .toMatchObject({ reason: "ORPHAN_MOUNT", blocked: {} });
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    expect(rig.mountsBelowRoot()).toEqual([]);
    await rig.publishUntilSettled({ uid: "b", ctr: 2 });
    await rig.releaseUntilSettled({ uid: "b", ctr: 2 });
    expect(rig.plugin.backend.violations()).toEqual([]);
  });

  test("a damaged journal: the agent runs, says so, and neither mounts nor releases", async () => {
    const rig = await startRig();
    await rig.start();
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    rig.signal("SIGKILL");
    await rig.exited();
    const file = path.join(rig.stateDir, "journal");
    const text = await journalText(rig);
    await writeFile(file, text.replace('"type":"staged"', '"type":"stagex"'));
    await rig.start();
    const damaged = { reason: "JOURNAL_DAMAGED" };
    expect(await rig.publish({ uid: "a", ctr: 1 })).toMatchObject({ uncertain: { ...damaged, blocked: damaged } });
    expect(await rig.release({ uid: "a", ctr: 1 })).toMatchObject({ pending: { ...damaged, block: damaged } });
    const inventory = await rig.inventory();
    expect(inventory.flatMap(({ volume }) => volume?.blocked?.reason ?? [])).toEqual(["JOURNAL_DAMAGED"]);
    // [I8] "A stream without its end is no inventory": what lies behind the damage may be more than the store knows of.
    expect(inventory.filter(({ end }) => end !== undefined)).toEqual([]);
    await expect.poll(() => rig.controller.reports.at(-1)?.health).toMatchObject({ accepting: false });
    expect(rig.mountsBelowRoot()).toHaveLength(2);
  });

  test("a second agent on the same state directory ends, and says why", async () => {
    const rig = await startRig();
    await rig.start();
    const first = rig.signal;
    await expect(rig.start()).rejects.toThrow(/another agent.* runs on the state directory/);
    first("SIGKILL");
  });

  test("[I10] a secret and a context value are in no log line, error or journal", async () => {
    const rig = await startRig({ backend: { secrets: { NodePublishVolume: { key: "canary-right" } } } });
    await rig.start();
    const changes = {
      stageSecrets: { key: "canary-stage" },
      nodePublishSecrets: { key: "canary-wrong" },
      volumeContext: { token: "canary-volume" },
      publishContext: { token: "canary-publish" },
    };
    const answers = [
      await rig.publish({ uid: "a", ctr: 1, changes }),
      await rig.publish({ uid: "a", ctr: 1, changes }),
    ];
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    const inventory = await rig.inventory();
    const told = JSON.stringify([answers, inventory], (_key, value) =>
      typeof value === "bigint" ? Number(value) : value,
    );
    expect(`${told}${rig.output()}${await journalText(rig)}`).not.toContain("canary");
  });
});

describe.skipIf(!isRoot)("the API of a running agent", () => {
  test("bad input is told with every violation, and nothing is written", async () => {
    const rig = await startRig();
    await rig.start();
    const before = await journalText(rig);
    const changes: NonNullable<RigClaim["changes"]> = {
      workload: "../up",
      alias: "",
      externalId: "x".repeat(129),
      mountFlags: ["a b"],
      fsType: "no/such",
      accessMode: 0,
      epoch: undefined,
      oldestLiveEpoch: { gen: 9n, ctr: 9n },
    };
    const error = await rig.publish({ uid: "a", ctr: 1, changes }).catch((it: unknown) => it);
    expect(error).toMatchObject({ kind: "invalid" });
    const fields = (error as { violations: { field: string }[] }).violations.map(({ field }) => field);
    expect(fields).toEqual([
      "permit.workload",
      "permit.alias",
      "permit.external_id",
      "permit.epoch",
      "permit.oldest_live_epoch",
      "permit.access_mode",
      "permit.fs_type",
      "permit.mount_flags[0]",
    ]);
    await expect(rig.agent.publish({})).rejects.toMatchObject({ kind: "invalid" });
    await expect(rig.agent.release({})).rejects.toMatchObject({ kind: "invalid" });
    await expect(rig.publish({ uid: "a", ctr: 1, changes: { node: "node-b" } })).rejects.toMatchObject({
      reason: "NODE_MISMATCH",
    });
    expect(await journalText(rig)).toBe(before);
  });

  test("orders come from controllers only", async () => {
    const rig = await startRig();
    await rig.start();
    for (const role of ["node", "scheduler", "operator", "monitor"] as const) {
      const client = rig.controller.orders({ role, name: "x" });
      await expect(client.publish({})).rejects.toMatchObject({ reason: "PERMISSION_DENIED" });
      await expect(client.release({})).rejects.toMatchObject({ reason: "PERMISSION_DENIED" });
      await expect(client.raiseFloor({})).rejects.toMatchObject({ reason: "PERMISSION_DENIED" });
      await expect(client.relay({})).rejects.toMatchObject({ reason: "PERMISSION_DENIED" });
    }
  });

  test("programs of the host have a socket of their own, for its group alone; health tells what serves", async () => {
    const rig = await startRig();
    await rig.start({ HOLDFAST_LOCAL_GROUP: "12345" });
    const socket = path.join(rig.dir, "l.sock");
    const { mode, gid } = await stat(socket);
    expect([(mode & 0o777).toString(8), gid]).toEqual(["660", 12345]);
    const common = { log: createMemoryLogger() };
    const open = (at: string) => {
      const channel = createGrpcChannel(`unix://${at}`, { ownConnection: true });
      onTestFinished(() => channel.close());
      return channel;
    };
    const local = open(socket);
    const name = { namespace: "ns", workload: "none" };
    const workloads = createGrpcClient(WorkloadServiceDefinition, local, common);
    await expect(workloads.getWorkload(name)).rejects.toMatchObject({ reason: "WORKLOAD_NOT_FOUND", metadata: name });
    // Whoever may open the socket is local, whatever it calls itself.
    const posing = createGrpcClient(WorkloadServiceDefinition, local, {
      ...common,
      identity: { role: "controller", name: "x" },
    });
    await expect(posing.getWorkload(name)).rejects.toMatchObject({ reason: "WORKLOAD_NOT_FOUND" });
    const hosts = createGrpcClient(PluginHostServiceDefinition, local, common);
    expect((await hosts.listInstances({})).instances).toBeDefined();
    const orders = createGrpcClient(AgentServiceDefinition, local, common);
    await expect(orders.publish({})).rejects.toMatchObject({ kind: "unimplemented" });
    const serving = async (channel: typeof local, service: string) =>
      (await createGrpcClient(HealthDefinition, channel, common).check({ service })).status;
    for (const service of ["", "holdfast.agent.v1.WorkloadService", "holdfast.agent.v1.PluginHostService"])
      expect(await serving(local, service)).toBe(1);
  });

  test("the inventory says what is held and how far it is; the promise of a generation is kept", async () => {
    const rig = await startRig();
    await rig.start();
    await rig.publishUntilSettled({ uid: "a", ctr: 3 });
    const [head, volume, end] = await rig.inventory();
    expect(head?.header).toMatchObject({
      node: "node-a",
      nodeEpoch: BigInt(rig.controller.nodeEpoch()),
      promisedGen: 0n,
    });
    expect(volume?.volume).toMatchObject({
      volumeUid: "uid-vol-1",
      stagingState: StagingState.STAGING_STATE_STAGED,
      floor: { gen: 1n, ctr: 2n },
      held: [
        {
          claimUid: "a",
          epoch: { gen: 1n, ctr: 3n },
          state: HeldState.HELD_STATE_PUBLISHED,
          workload: "w-a",
          accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
          attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
          nodeEpoch: BigInt(rig.controller.nodeEpoch()),
          releasing: false,
        },
      ],
    });
    expect(volume?.volume?.held[0]?.mountId).toBeGreaterThan(0n);
    expect(end?.end).toEqual({ volumes: 1, orphans: 0 });
    const promised = { promisedGen: 2n, vettingUid: "second", openCalls: [] };
    expect(await rig.agent.raiseFloor({ promisedGen: 2n, vettingUid: "second" })).toEqual(promised);
    expect(await rig.agent.raiseFloor({ promisedGen: 1n })).toEqual(promised);
    expect((await rig.publish({ uid: "b", ctr: 4 })).refused?.message).toMatch(/generation 2 .* was promised/);
    expect(await rig.agent.raiseFloor({ promisedGen: 2n, vettingUid: "other" })).toEqual(promised);
    await rig.releaseUntilSettled({ uid: "a", ctr: 3 });
  });

  test("a CSI call is relayed as bytes; what never left is told from what did", async () => {
    const rig = await startRig();
    await rig.start();
    await expect.poll(() => rig.controller.fingerprints().length).toBe(1);
    const ok = await rig.agent.relay({ plugin: pluginName, method: "/csi.v1.Identity/GetPluginInfo" });
    expect(Buffer.from(ok.response ?? []).toString("latin1")).toContain(pluginName);
    const away = await rig.agent.relay({ plugin: "other", method: "/csi.v1.Identity/GetPluginInfo" });
    expect(away.failure).toMatchObject({ code: 14, notSent: true });
    // The last: [I4] no mount comes or goes past the journal.
    for (const method of ["/csi.v1.Nothing/At", "/csi.v1.Node/NodeUnpublishVolume"]) {
      await expect(rig.agent.relay({ plugin: pluginName, method })).rejects.toMatchObject({ kind: "invalid" });
    }
  });
});
