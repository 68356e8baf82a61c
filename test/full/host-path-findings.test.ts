/** What docs/real-drivers.md says, on csi-driver-host-path where it shows it by itself: no fault is planted but a kill. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { ReclaimPolicy } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import type { HostPathProcess } from "../harness/host-path-process.ts";
import { type HostPathWorld, hostPathPlugin, startHostPathWorld } from "../harness/host-path-world.ts";
import {
  claimVolume,
  fileWriter,
  growVolume,
  isGrown,
  mountsUnder,
  namespace,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";
import { buildHostPath, hasHostPath } from "../support/host-path-driver.ts";

const can = full && (await hasHostPath("what csi-driver-host-path shows of the findings"));
const node = "node-a";
const topology = { required: [{ segments: { "topology.hostpath.csi/node": node } }] };
const waitFor = { seconds: 45n, nanos: 0 };

describe.runIf(can)("csi-driver-host-path shows", () => {
  let world: HostPathWorld;
  let driver: HostPathProcess;
  const processes: ChildProcess[] = [];

  beforeAll(async () => {
    await buildHostPath();
    world = await startHostPathWorld({
      hosted: false,
      controllers: 1,
      controllerEnv: { HOLDFAST_CONDITION_INTERVAL: "150ms" },
      agentEnv: { HOLDFAST_STATS_MAX_AGE: "1s" },
    });
    driver = world.driver(node);
  }, 600_000);
  afterAll(async () => {
    for (const one of processes) one.kill("SIGKILL");
    await world?.stop();
  });

  const make = async (id: string, capability: typeof fileWriter = fileWriter) => {
    const asked = { namespace, id, plugin: hostPathPlugin, topology, capacity: { requiredBytes: 16n << 20n } };
    const { volume } = await world.cluster.volumes.createVolume({ ...asked, capabilities: [capability], waitFor });
    if (volume === undefined) throw new Error(`${id} was not made`);
    return volume;
  };
  const ask = (id: string) =>
    world.cluster.claims.createClaims({ namespace, workload: `w-${id}`, node, claims: [{ volume: id }] });
  const release = (id: string) => world.cluster.claims.releaseClaims({ namespace, workload: `w-${id}` });
  const claimOf = async (id: string) =>
    (await world.cluster.claims.listClaims({ filter: { namespace, volume: id } })).claims[0];
  const isOver = (id: string) => until(`the claim of ${id} to be over`, async () => (await claimOf(id)) === undefined);
  const callsOf = (method: string, volume: string) =>
    driver.calls().filter((call) => call.method === method && call.request?.["volume_id"] === volume);
  const ended = async (id: string) => {
    await removeVolume(world.cluster, id);
    expect((await driver.state()).Volumes ?? []).toEqual([]);
    expect(await mountsUnder(world.cluster.node(node).rootDir)).toEqual([]);
  };

  it("D2: it dies between its mount and its record, and answers OK over the mount: the agent unmounts it", async () => {
    const { externalId } = await make("left");
    await driver.arm();
    await ask("left");
    expect(await driver.catchIn(["NodePublishVolume"], () => false)).toBe("NodePublishVolume");
    await driver.kill("as before");
    await driver.start();
    const { hostPath, state } = await claimVolume(world.cluster, "left");
    expect(stateName({ state })).toBe("ACTIVE");
    expect((await driver.state()).Volumes.map(({ Published }) => Published ?? [])).toEqual([[]]);
    await release("left");
    await isOver("left");
    const answers = callsOf("NodeUnpublishVolume", externalId).map(({ end }) => end);
    expect(answers.slice(0, 2)).toEqual(["OK", "OK"]);
    expect(world.cluster.node(node).agent().output()).toContain("the agent unmounted what its plugin had left mounted");
    expect(await mountsUnder(hostPath)).toEqual([]);
    await ended("left");
  });

  it("D3: a process uses the mount, and it answers UNKNOWN: the process is named, and the printed command clears it", async () => {
    await make("busy");
    const { hostPath } = await claimVolume(world.cluster, "busy");
    const holder = spawn("sleep", ["600"], { cwd: hostPath, stdio: "ignore" });
    processes.push(holder);
    await release("busy");
    const blocked = await until("the holder to be named", async () => (await claimOf("busy"))?.blocked, 60_000);
    expect(blocked.reason).toBe("MOUNT_HELD");
    expect(blocked.message).toContain(`process ${holder.pid} (sleep) uses ${hostPath}`);
    expect(blocked.message).toMatch(/NodeUnpublishVolume answered UNKNOWN: .*target is busy/s);
    expect(spawnSync("sh", ["-c", /kill \d+/.exec(blocked.clearWith)?.[0] ?? "false"]).status).toBe(0);
    await isOver("busy");
    await ended("busy");
  });

  it("D9: the same capability in the log of each of its calls of a volume's life", async () => {
    const capability = {
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_SINGLE_WRITER,
      fsType: "ext4",
      mountFlags: ["noatime"],
    };
    const before = driver.calls().length;
    const { externalId, context } = await make("first", capability);
    await world.cluster.volumes.deregisterVolume({ namespace, id: "first" });
    await world.cluster.volumes.registerVolume({
      ...{ namespace, id: "same", plugin: hostPathPlugin, externalId, context, capabilities: [capability], waitFor },
      accessibleTopology: topology.required,
      policy: { reclaim: ReclaimPolicy.RECLAIM_POLICY_DELETE },
    });
    expect(stateName(await claimVolume(world.cluster, "same"))).toBe("ACTIVE");
    expect(isGrown(await growVolume(world.cluster, "same"))).toBe(true);
    await releaseWorkload(world.cluster, "w-same");
    const told = driver
      .calls()
      .slice(before)
      .flatMap(({ method, request: { volume_capability: one, volume_capabilities: more = [] } = {} }) =>
        [...(one === undefined ? [] : [one]), ...(more as readonly unknown[])].map((said) => ({ method, said })),
      );
    expect([...new Set(told.map(({ method }) => method))].sort()).toEqual([
      ...["ControllerExpandVolume", "ControllerPublishVolume", "CreateVolume", "NodeExpandVolume"],
      ...["NodePublishVolume", "NodeStageVolume", "ValidateVolumeCapabilities"],
    ]);
    const words = [...new Set(told.map(({ said }) => JSON.stringify(said)))];
    expect(words).toEqual([expect.stringContaining('"mount_flags":["noatime"]')]);
    await ended("same");
  });

  it("D13: it calls each mounted volume abnormal outside of a kubelet, until its profile says that its word is ignored", async () => {
    await make("slandered");
    expect(stateName(await claimVolume(world.cluster, "slandered"))).toBe("ACTIVE");
    const condition = async () => {
      const { volume } = await world.cluster.volumes.getVolume({ namespace, id: "slandered" });
      return volume?.condition;
    };
    const said = await until("it to be called abnormal", condition, 60_000);
    expect(said).toMatchObject({ abnormal: true, message: expect.stringContaining("The volume isn't mounted") });
    const files = { "p.yaml": "ignore_condition: true\n" };
    const { code, err } = await cliRun(["plugin", "profile", hostPathPlugin, "p.yaml"], {
      address: world.cluster.address,
      files,
    });
    expect(code, err).toBe(0);
    await until("it to be called so no more", async () => (await condition()) === undefined, 60_000);
    await releaseWorkload(world.cluster, "w-slandered");
    await ended("slandered");
  });

  it("D16: a workload with any name has its volume, at a path that the driver can use", async () => {
    const workload = 'Web [canary] №7 — it\'s "$HOME"';
    const { externalId } = await make("named");
    expect(stateName(await claimVolume(world.cluster, "named", { workload }))).toBe("ACTIVE");
    const [publish] = callsOf("NodePublishVolume", externalId);
    expect(publish?.request?.["target_path"]).toMatch(/^[\w./-]+$/);
    await releaseWorkload(world.cluster, workload);
    await ended("named");
  });
});
