/** The plugin of Nomad's dynamic host volumes, driven as a client of Nomad drives it: each operation × each fault. */
import { access, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { AccessMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type CreatedVolume, createFakeNomad, type FakeNomad } from "../harness/fake-nomad.ts";
import {
  claimVolume,
  expectClean,
  fileWriter,
  makeVolume,
  namespace,
  plugin,
  releaseWorkload,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full, sample } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const MiB = 1 << 20;
const spec = (id: string, change: object = {}) => ({
  ...{ namespace, id, name: `name-of-${id}`, capacityMin: 16 * MiB, parameters: { plugin } },
  ...change,
});

describe.skipIf(!root)("Nomad's volume plugin", { timeout: 120_000 }, () => {
  let dir: string;
  let cluster: Cluster;
  let nomad: FakeNomad;
  const socket = (): string => path.join(dir, "nomad.sock");

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-nomad-"));
    cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      controllerEnv: { HOLDFAST_LINK_GRACE: "1s" },
      agentEnv: { HOLDFAST_NOMAD_SOCKET: socket() },
    });
    nomad = await createFakeNomad(dir, socket());
  }, 60_000);
  afterAll(async () => {
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const holders = async (id: string) =>
    (await cluster.volumes.getVolume({ namespace, id })).volume?.holders.map(({ workload }) => workload);
  const write = (volume: CreatedVolume, words: string) => writeFile(path.join(volume.path, "file"), words);
  const read = (volume: CreatedVolume | Error | undefined) =>
    volume === undefined || volume instanceof Error
      ? Promise.reject(volume)
      : readFile(path.join(volume.path, "file"), "utf8");
  /** As the plugin posts it, with less patience. */
  const post = (operation: string, form: Readonly<Record<string, string>>) =>
    new Promise<string>((resolve, reject) => {
      const sent = request({ socketPath: socket(), path: `/${operation}`, method: "POST" }, (response) => {
        text(response).then((body) => resolve(`${response.statusCode} ${body}`), reject);
      });
      sent.once("error", reject);
      sent.end(new URLSearchParams({ namespace, wait: "1", ...form }).toString());
    });

  it("tells its version without an agent, and names every mistake of a specification at once", async () => {
    const { version } = JSON.parse(await readFile(path.resolve("package.json"), "utf8")) as { version: string };
    const alone = await createFakeNomad(path.join(dir, "alone"), path.join(dir, "nothing.sock"));
    expect(await alone.fingerprint()).toEqual({ version });
    const wrong = nomad.create(
      spec("wrong", { namespace: "Not_One", parameters: { size: "1GiB", fsys: "ext4", create: "now" } }),
    );
    await expect(wrong).rejects.toThrow(
      /DHV_NAMESPACE.*parameters\.size.*capacity_min.*parameters\.create.*parameters\.fsys.*parameters\.plugin/,
    );
    expect(await readdir(nomad.volumesDir)).toEqual([]);
  });

  it("create, restart, grow by create, delete: one claim on this node, the data stays, and nothing is left", async () => {
    const made = await nomad.create(spec("data"));
    expect(made.bytes).toBe(16 * MiB);
    expect(await nomad.create(spec("data"))).toEqual(made);
    await write(made, "kept");
    expect(await holders("data")).toEqual(["nomad@node-a:data"]);
    const { volume } = await cluster.volumes.getVolume({ namespace, id: "data" });
    expect(volume?.labels).toMatchObject({ "holdfast.made-by": "nomad", "nomad.name": "name-of-data" });
    expect(await read((await nomad.restart()).get("data"))).toBe("kept");

    const grown = await nomad.create(spec("data", { capacityMin: 32 * MiB }));
    expect(grown).toEqual({ path: made.path, bytes: 32 * MiB });
    expect(await read(grown)).toBe("kept");
    expect((await nomad.restart()).get("data")).toEqual(grown);
    const other = nomad.create(spec("data", { parameters: { plugin, "param.tier": "gold" } }));
    await expect(other).rejects.toThrow(/VOLUME_EXISTS.*parameters/);
    const more = nomad.create(spec("data", { capacityMin: 2 ** 50 }));
    await expect(more).rejects.toThrow(/VOLUME_NOT_AVAILABLE: volume test\/data has 33554432 bytes/);

    await nomad.remove("data");
    await nomad.remove("data", namespace);
    await expect(access(made.path)).rejects.toThrow();
    expect(await readdir(nomad.volumesDir)).toEqual([]);
    await expectClean(cluster);
  });

  it("no controller: what is active is answered at each start, also by an agent that has just started; nothing else is", async () => {
    const made = await nomad.create(spec("held"));
    await write(made, "kept");
    await cluster.controller().kill("SIGKILL");
    expect(await nomad.restart()).toEqual(new Map([["held", made]]));
    await cluster.node("node-a").agent().kill("SIGKILL");
    // The client is there before the agent, which it waits for.
    const restarted = nomad.restart();
    await sleep(300);
    // Ready is only one that has reached a controller.
    const ready = cluster.node("node-a").startAgent();
    expect(await restarted).toEqual(new Map([["held", made]]));
    expect(await read(made)).toBe("kept");
    // Neither a growth, nor a request that this host never answered, nor another volume is taken for it.
    const form = { id: "held", name: "name-of-held", capacity_min: `${16 * MiB}`, capacity_max: "0" };
    const asked = { ...form, parameters: JSON.stringify({ plugin }) };
    const last = await readFile(path.join(nomad.volumesDir, ".holdfast-held"), "utf8");
    expect(await post("create", { ...asked, last })).toMatch(/^200 /);
    const refused = await Promise.all([
      post("create", { ...asked, last, capacity_min: `${32 * MiB}` }),
      post("create", asked),
      post("create", { ...asked, last: last.slice(0, 20) }),
      post("create", { ...asked, last, id: "other" }),
      post("delete", asked),
    ]);
    for (const answer of refused) expect(answer).toMatch(/^503 .*CONTROLLER_UNAVAILABLE/);
    expect(await read(made)).toBe("kept");
    await cluster.startController();
    await ready;
    await nomad.remove("held");
    await expectClean(cluster);
  });

  it("killed half-way, again and again: the same create makes one volume and one claim", async () => {
    for (const ms of [1, 20, 50, 100, 200]) await nomad.create(spec("cut"), ms).catch(() => undefined);
    const made = await nomad.create(spec("cut"));
    await write(made, "kept");
    expect(await holders("cut")).toEqual(["nomad@node-a:cut"]);
    expect((await cluster.backend.client.snapshot()).state.volumes.size).toBe(1);
    // And the agent dies in the middle of a create.
    const creating = nomad.create(spec("died"));
    await sleep(60);
    await cluster.node("node-a").agent().kill("SIGKILL");
    await cluster.node("node-a").startAgent();
    await creating;
    expect(await holders("died")).toEqual(["nomad@node-a:died"]);
    for (const id of ["cut", "died"]) await nomad.remove(id);
    expect(await readdir(nomad.volumesDir)).toEqual([]);
    await expectClean(cluster);
  });

  it("delete is refused while another workload has the volume, and of what Nomad did not make", async () => {
    const made = await nomad.create(spec("used", { parameters: { plugin, mode: "single-node-multi-writer" } }));
    await write(made, "kept");
    await claimVolume(cluster, "used", { workload: "web" });
    await expect(nomad.remove("used")).rejects.toThrow(/VOLUME_IN_USE.*workload web on node node-a/);
    // Nomad goes on with what it has.
    expect(await read(made)).toBe("kept");
    await releaseWorkload(cluster, "web");
    await nomad.remove("used");

    await makeVolume(cluster, "theirs", {
      ...fileWriter,
      accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
    });
    await expect(nomad.create(spec("theirs"))).rejects.toThrow(/VOLUME_EXISTS/);
    await expect(nomad.remove("theirs", namespace)).rejects.toThrow(/PERMISSION_DENIED.*holdfast volume delete theirs/);
    await cluster.volumes.deleteVolume({ namespace, id: "theirs", waitFor: { seconds: 20n } });
    await expectClean(cluster);
  });

  const count = sample(100, 3);
  it(`${count} volumes, and starts of the client with all of them at once`, { timeout: 300_000 }, async () => {
    const ids = Array.from({ length: count }, (_, i) => `many-${i}`);
    for (let i = 0; i < count; i += 10)
      await Promise.all(ids.slice(i, i + 10).map(async (id) => write(await nomad.create(spec(id)), id)));
    const check = async () => {
      const restored = await nomad.restart();
      expect(restored.size).toBe(count);
      for (const id of ids) expect(await read(restored.get(id))).toBe(id);
    };
    await check();
    if (full) {
      await cluster.controller().kill("SIGKILL");
      await check();
      const agent = cluster.node("node-a");
      await agent.agent().kill("SIGKILL");
      const ready = agent.startAgent();
      ready.catch(() => undefined);
      await check();
      await cluster.startController();
      await ready;
    }
    for (let i = 0; i < count; i += 10) await Promise.all(ids.slice(i, i + 10).map((id) => nomad.remove(id)));
    await until("all to be gone", async () => (await cluster.backend.client.snapshot()).state.volumes.size === 0);
    expect(await readdir(nomad.volumesDir)).toEqual([]);
    await expectClean(cluster);
  });
});
