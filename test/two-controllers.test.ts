/** Several controllers on one store: each answers for what the others do, they share the calls, and one volume is never driven by two. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type App, createApp } from "@holdfast/controller/app";
import { configSchema } from "@holdfast/controller/config";
import { loadConfig } from "@holdfast/shared/config/config";
import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import {
  type CreateVolumeRequest,
  type DeepPartial,
  VolumeServiceDefinition,
  VolumeState,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { type Backend, createBackend } from "@holdfast/sim-plugin/backend/backend";
import { createSimPlugin, type SimPlugin } from "@holdfast/sim-plugin/sim-plugin";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type RedisServer, startRedisServer } from "./support/redis-server.ts";

let dir: string;
let redis: RedisServer;
let backend: Backend;
let plugins: SimPlugin[];
const apps: App[] = [];
const channels: GrpcChannel[] = [];

const start = async (name: string) => {
  const pluginDir = path.join(dir, `${name}-p`);
  await mkdir(pluginDir, { mode: 0o700 });
  plugins.push(
    await createSimPlugin({ role: "controller", socket: path.join(pluginDir, "s.sock"), instance: name, backend }),
  );
  const app = createApp(
    loadConfig(configSchema, {
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: path.join(dir, name),
      HOLDFAST_PLUGIN_DIR: pluginDir,
      HOLDFAST_STORE: redis.url,
      // Shares depend on it.
      HOLDFAST_ID: name,
    }),
    { log: createMemoryLogger() },
  );
  apps.push(app);
  await app.start();
  const channel = createGrpcChannel(app.address());
  channels.push(channel);
  return createGrpcClient(VolumeServiceDefinition, channel, { log: createMemoryLogger() });
};

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-two-"));
  redis = await startRedisServer();
  backend = createBackend();
  plugins = [];
});
afterEach(async () => {
  for (const channel of channels.splice(0)) channel.close();
  for (const app of apps.splice(0)) await app.stop();
  for (const plugin of plugins) await plugin.close();
  await redis.stop();
  await rm(dir, { recursive: true, force: true });
});

const waitFor = { seconds: 20n, nanos: 0 };
const wanted = (id: string): DeepPartial<CreateVolumeRequest> => ({
  namespace: "default",
  id,
  plugin: "sim.holdfast.dev",
  capacity: { requiredBytes: 1n << 24n },
  capabilities: [{ attachmentMode: 1, accessMode: 1 }],
  waitFor,
});

test("the same requests at both make each volume once, and a watch at one tells what the other did", async () => {
  const one = await start("one");
  const two = await start("two");
  const until = new AbortController();
  const seen = new Map<string, VolumeState>();
  const watching = (async () => {
    for await (const { kind, volume } of two.watchVolumes({}, { signal: until.signal })) {
      if (volume === undefined) continue;
      if (kind === WatchKind.WATCH_KIND_REMOVED) seen.delete(volume.id);
      else seen.set(volume.id, volume.state);
    }
  })().catch(() => undefined);

  const ids = Array.from({ length: 10 }, (_, i) => `v${i}`);
  const answers = await Promise.all(ids.flatMap((id) => [one.createVolume(wanted(id)), two.createVolume(wanted(id))]));
  expect(new Set(answers.map(({ volume }) => volume?.state))).toEqual(new Set([VolumeState.VOLUME_STATE_AVAILABLE]));
  expect(new Set(answers.map(({ volume }) => volume?.uid)).size).toBe(ids.length);
  expect(backend.state().volumes.size).toBe(ids.length);
  await expect
    .poll(() => [...seen.values()].filter((state) => state === VolumeState.VOLUME_STATE_AVAILABLE).length)
    .toBe(ids.length);

  await Promise.all(
    ids.flatMap((id) => [one, two].map((at) => at.deleteVolume({ namespace: "default", id, waitFor }))),
  );
  expect(backend.state().volumes.size).toBe(0);
  await expect.poll(() => seen.size).toBe(0);
  expect(backend.violations()).toEqual([]);
  until.abort();
  await watching;
});

test("storage that both are asked to register at once, under several names, gets one record", async () => {
  const [one, two] = [await start("one"), await start("two")];
  const disks = Array.from({ length: 8 }, (_, i) => `disk-${i}`);
  for (const id of disks) backend.addVolume({ id });
  const register = (at: typeof one, id: string, externalId: string) =>
    at.registerVolume({
      namespace: "default",
      id,
      plugin: "sim.holdfast.dev",
      externalId,
      capabilities: [{ attachmentMode: 1, accessMode: 1 }],
      waitFor,
    });
  for (const disk of disks) {
    const answers = await Promise.allSettled(
      [one, two, one, two].map((at, i) => register(at, `${disk}-as-${i}`, disk)),
    );
    const made = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value.volume] : []));
    expect(made.map((volume) => volume?.state)).toEqual([VolumeState.VOLUME_STATE_AVAILABLE]);
    for (const answer of answers)
      if (answer.status === "rejected") expect(answer.reason).toMatchObject({ reason: "VOLUME_EXISTS" });
  }
  expect((await one.listVolumes({})).volumes.map(({ externalId }) => externalId).sort()).toEqual(disks);
  expect(backend.state().volumes.size).toBe(disks.length);
  expect(backend.violations()).toEqual([]);
});

test("a quota is never exceeded by requests at both at once, and each refusal has the numbers", async () => {
  const all = [await start("one"), await start("two")] as const;
  const [channel] = channels;
  if (channel === undefined) throw new Error("no channel");
  const quotas = createGrpcClient(QuotaServiceDefinition, channel, { log: createMemoryLogger() });
  const size = 1n << 24n;
  const limits = { volumes: 20n, bytes: 5n * size };
  await quotas.setQuota({ namespace: "default", limits, reason: "as ordered" });

  const ask = async (ids: readonly string[]): Promise<readonly string[]> => {
    const answers = await Promise.allSettled(
      ids.map((id, i) => all[i % 2 === 0 ? 0 : 1].createVolume({ ...wanted(id), waitFor })),
    );
    for (const answer of answers)
      if (answer.status === "rejected")
        expect(answer.reason).toMatchObject({
          reason: "QUOTA_EXCEEDED",
          message: expect.stringContaining(`may have ${limits.bytes} bytes and has ${limits.bytes}: ${size} more`),
          metadata: { item: "bytes", limit: `${limits.bytes}`, used: `${limits.bytes}`, asked: `${size}` },
        });
    return ids.filter((_, i) => answers[i]?.status === "fulfilled");
  };
  const used = async () => (await quotas.getQuota({ namespace: "default" })).quota?.used;

  const made = await ask(Array.from({ length: 20 }, (_, i) => `q${i}`));
  expect(made).toHaveLength(5);
  expect(await used()).toMatchObject({ volumes: 5n, bytes: 5n * size });
  expect(backend.state().volumes.size).toBe(5);

  await all[1].deleteVolume({ namespace: "default", id: made[0] ?? "", waitFor });
  expect(await ask(Array.from({ length: 6 }, (_, i) => `again-${i}`))).toHaveLength(1);
  expect(await used()).toMatchObject({ volumes: 5n, bytes: 5n * size });
  expect(backend.state().volumes.size).toBe(5);
});

describe("the calls of one plugin", () => {
  const creates = () => backend.record().filter(({ method }) => method === "CreateVolume");
  let made = 0;
  type Controller = Awaited<ReturnType<typeof start>>;
  const make = async (at: Controller): Promise<void> => {
    made += 1;
    const { volume } = await at.createVolume(wanted(`shared-${made}`));
    expect(volume?.state).toBe(VolumeState.VOLUME_STATE_AVAILABLE);
  };
  /** Until each of them has made a call that the first was asked for: all have seen each other then. */
  const settled = async ([first]: readonly Controller[], names: readonly string[]): Promise<void> => {
    const seen = async (): Promise<boolean> => {
      if (first !== undefined) await make(first);
      return names.every((name) => creates().some(({ instance }) => instance === name));
    };
    await expect.poll(seen, { timeout: 60_000, interval: 100 }).toBe(true);
    backend.clear();
  };
  const expectShares = (names: readonly string[]): void => {
    const all = creates();
    for (const name of names) {
      const part = all.filter(({ instance }) => instance === name).length / all.length;
      expect([name, part >= 0.6 / names.length, part <= 1.4 / names.length]).toEqual([name, true, true]);
    }
  };

  test.each(
    [
      ["one", "two"],
      ["one", "two", "three"],
    ].map((names) => ({ names })),
  )(
    "is shared by $names, whether one of them is asked or all, and goes on at the others when one stops",
    async ({ names }) => {
      const all: Controller[] = [];
      for (const name of names) all.push(await start(name));
      await settled(all, names);
      const ask = async (some: readonly Controller[], count: number): Promise<void> => {
        const each = async (at: Controller): Promise<void> => {
          for (let n = 0; n < count / some.length; n += 1) await make(at);
        };
        await Promise.all(some.map(each));
      };
      await ask(all.slice(0, 1), 90);
      expect(creates()).toHaveLength(90);
      expectShares(names);
      backend.clear();
      await ask(all, 90);
      expect(creates()).toHaveLength(90);
      expectShares(names);

      const before = backend.state().volumes.size;
      backend.clear();
      await apps[1]?.stop();
      await ask([...all.slice(0, 1), ...all.slice(2)], 60);
      expect(backend.state().volumes.size).toBe(before + 60);
      expect(creates().filter(({ instance }) => instance === names[1])).toEqual([]);
      expect(backend.violations()).toEqual([]);
    },
    120_000,
  );
});
