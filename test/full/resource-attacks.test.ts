/** A caller that wants to use the controller up gets refusals; others are served meanwhile, and what it took is given back. */
import {
  CreateVolumeRequest,
  ListVolumesRequest,
  VolumeBinding,
  WatchVolumesRequest,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { fileWriter, namespace, plugin } from "../harness/scenario.ts";
import {
  bomb,
  rawCall,
  resets,
  residentKiB,
  session,
  settledKiB,
  unreadStreams,
  watchHealth,
  wireFrame,
} from "../support/resource-attacks.ts";

const create = "/holdfast.v1.VolumeService/CreateVolume";
const watch = "/holdfast.v1.VolumeService/WatchVolumes";
/** Seconds in which an idle service has given back what it can, on a busy machine too. */
const secondsToRest = 90;
const scale = Number(process.env["HOLDFAST_ATTACK_SCALE"] ?? "1");
const many = (count: number): number => Math.ceil(count * scale);

const volume = (id: string) => ({
  ...{ namespace, id, plugin, capacity: { requiredBytes: 1n << 20n } },
  capabilities: [fileWriter],
});
const request = CreateVolumeRequest.encode(CreateVolumeRequest.fromPartial(volume("attacked"))).finish();
const watching = WatchVolumesRequest.encode(WatchVolumesRequest.fromPartial({ filter: { namespace } })).finish();

describe("a caller that wants to use the controller up", () => {
  let cluster: Cluster;
  let pid: number;
  let health: string;
  const figures: Record<string, unknown> = {};

  beforeAll(async () => {
    cluster = await startCluster({ nodes: [] });
    const line = await cluster.controller().line((l) => l["message"] === "admin listening", "its admin address");
    health = `http://${String(line["address"])}/healthz`;
    ({ pid } = cluster.controller());
    // What a service takes once for all is no leak: each kind of attack is made small before it is measured.
    await resets(cluster.address, create, request, 400);
    await unreadStreams(cluster.address, watch, watching, 200);
  });
  afterAll(async () => {
    console.log(JSON.stringify(figures));
    await cluster?.stop();
  });

  /** Answers /healthz throughout; the longest is held against what it takes without an attack, on the same busy machine. */
  const under = async <T>(name: string, attack: () => Promise<T>): Promise<T> => {
    const before = await residentKiB(pid);
    const end = watchHealth(health);
    const result = await attack();
    const seen = await end();
    const after = await settledKiB(pid, 6);
    figures[name] = { ...seen, beforeKiB: before, afterKiB: after };
    expect(seen.wrong, `${name}: answers of /healthz that were none`).toBe(0);
    expect(seen.asked).toBeGreaterThan(0);
    // A machine that others use delays it too: ten times what the requirement of a quiet one is.
    expect(seen.longest, `${name}: the longest answer of /healthz, ms`).toBeLessThan(10_000);
    return result;
  };

  test("with 10,800 requests that it resets", async () => {
    await under("resets", () => resets(cluster.address, create, request, many(10_800)));
  });

  test("with 10,000 streams that it never reads: those above the bound are refused", async () => {
    const refused = await under("streams", () => unreadStreams(cluster.address, watch, watching, many(10_000)));
    if (scale >= 1) expect(refused).toBeGreaterThan(0);
  });

  test("with messages of 64 MiB: refused before they have arrived", async () => {
    const one = session(cluster.address);
    const part = Buffer.alloc(1 << 20);
    function* huge(): Generator<Buffer> {
      yield wireFrame(part, false, 64 << 20);
      for (let n = 1; n < 64; n += 1) yield part;
    }
    const statuses = await under("64 MiB", () =>
      Promise.all(Array.from({ length: 8 }, () => rawCall(one, create, huge()))),
    );
    for (const status of statuses) expect(status).toMatch(/^8$|^reset /);
    one.destroy();
  });

  test("with 1 GiB of zeros in 1 MiB of gzip: refused at the bound of a message", async () => {
    const one = session(cluster.address);
    const zeros = await bomb(many(1 << 30));
    expect(zeros.length).toBeLessThan(1 << 20);
    const call = () => rawCall(one, create, [wireFrame(zeros, true)], { "grpc-encoding": "gzip" });
    const peaks: number[] = [];
    const statuses = await under("bombs", async () => {
      const all: string[] = [];
      for (let n = 0; n < 20; n += 1) {
        all.push(await call());
        peaks.push(await residentKiB(pid));
      }
      return all;
    });
    expect(new Set(statuses)).toEqual(new Set(["8"]));
    figures["bombs peak"] = Math.max(...peaks);
    // One of them alone would be 1 GiB.
    expect(Math.max(...peaks)).toBeLessThan((figures["bombs"] as { beforeKiB: number }).beforeKiB + 256 * 1024);
    one.destroy();
  });

  test("leaves no stream open and takes no memory for good", async () => {
    // The least that it comes down to, once it is idle.
    const before = await settledKiB(pid, 2 * secondsToRest);
    await resets(cluster.address, create, request, many(10_800));
    await unreadStreams(cluster.address, watch, watching, many(10_000));
    const open = async () => {
      const text = await (await fetch(health.replace("/healthz", "/metrics"))).text();
      return [...text.matchAll(/^holdfast_grpc_server_streams\{.*\} (\d+)$/gm)].map(([, streams]) => streams);
    };
    await expect.poll(async () => new Set(await open()), { timeout: 20_000 }).toEqual(new Set(["0"]));
    const taken = await residentKiB(pid);
    const after = await settledKiB(pid, 2 * secondsToRest);
    figures["again"] = { beforeKiB: before, takenKiB: taken, afterKiB: after };
    expect(after).toBeLessThanOrEqual(before * 1.1);
  });

  test("with listings of 100,000 volumes, and page tokens that loop", async () => {
    const count = many(100_000);
    let made = 0;
    const maker = async (): Promise<void> => {
      while (made < count) {
        made += 1;
        // Until its first claim nothing is asked of the plugin: all that is made is a record.
        await cluster.volumes.createVolume({
          ...volume(`v-${made}`),
          binding: VolumeBinding.VOLUME_BINDING_FIRST_CLAIM,
        });
      }
    };
    await Promise.all(Array.from({ length: 50 }, maker));
    const filter = { namespace };
    const seen = await under("listing", async () => {
      const ids = new Set<string>();
      let pageToken = "";
      do {
        const page = await cluster.volumes.listVolumes({ filter, pageSize: 500, pageToken });
        expect(page.volumes.length).toBeLessThanOrEqual(500);
        for (const { id } of page.volumes) ids.add(id);
        expect(page.nextPageToken).not.toBe(pageToken);
        pageToken = page.nextPageToken;
      } while (pageToken !== "");
      return ids.size;
    });
    expect(seen).toBeGreaterThanOrEqual(count);
    const { nextPageToken } = await cluster.volumes.listVolumes({ filter, pageSize: 500 });
    await under("looping tokens", async () => {
      // The same page as often as somebody likes: each costs one page, and none holds anything.
      const pages = await Promise.all(
        Array.from({ length: 50 }, () =>
          cluster.volumes.listVolumes({ filter, pageSize: 500, pageToken: nextPageToken }),
        ),
      );
      expect(new Set(pages.map((page) => page.nextPageToken)).size).toBe(1);
    });
    const others = { filter: { namespace: "other" }, pageSize: 500, pageToken: nextPageToken };
    await expect(cluster.volumes.listVolumes(others)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    const list = ListVolumesRequest.encode(ListVolumesRequest.fromPartial({ pageSize: 2 ** 31 - 1 })).finish();
    const one = session(cluster.address);
    expect(await rawCall(one, "/holdfast.v1.VolumeService/ListVolumes", [wireFrame(list)])).toMatch(/^(0|3)$/);
    one.destroy();
  });
});
