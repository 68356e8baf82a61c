import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { NodeRecord } from "@holdfast/controller/domain/node/node";
import { createNodeStore } from "@holdfast/controller/nodes/node-store";
import { systemClock } from "@holdfast/shared/async/clock";
import { ClaimServiceDefinition, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createChannel, createClient } from "nice-grpc";
import { type ManagedProcess, startProcess } from "../test/harness/managed-process.ts";
import { freeName, loadVolumes, nodeName, type ScaleSize, scalePlugin, takenName } from "./scale-load.ts";
import { openBenchStore } from "./support/bench-store.ts";
import type { BenchRedis } from "./support/redis.ts";
import { type Spread, spreadOf } from "./support/spread.ts";

export interface ScalePlan {
  readonly small: ScaleSize;
  readonly large: ScaleSize;
  /** Of the cheap calls; claims are a quarter of them. */
  readonly calls: number;
}

export const scaleCalls = ["list page", "get", "placement", "claim"] as const;
export type ScaleCall = (typeof scaleCalls)[number];

export interface ScaleFigures extends ScaleSize {
  readonly bytesPerVolume: number;
  readonly startMs: number;
  readonly ms: Readonly<Record<ScaleCall, Spread>>;
}

export interface Scale {
  readonly small: ScaleFigures;
  readonly large: ScaleFigures;
}

interface Side {
  readonly size: ScaleSize;
  readonly bytesPerVolume: number;
  readonly startMs: number;
  readonly calls: Readonly<Record<ScaleCall, (turn: number) => Promise<void>>>;
  stop(): Promise<void>;
}

const nodeRecord = (index: number): NodeRecord => {
  const name = nodeName(index);
  return {
    name,
    machineId: `machine-${name}`,
    bootId: `boot-${name}`,
    journalUid: `journal-${name}`,
    instance: `instance-${name}`,
    nodeEpoch: 1,
    state: "READY",
    address: "127.0.0.1:1",
    version: "0.1.0",
    verificationScope: "host",
    plugins: [
      {
        name: scalePlugin,
        version: "1.0.0",
        instance: `plugin-${name}`,
        role: "NODE",
        health: "HEALTHY",
        healthMessage: "",
        nodeId: name,
        maxVolumes: 0,
        topology: { zone: `zone-${index % 3}` },
        capabilities: {},
      },
    ],
    registeredAt: 0,
    updatedAt: 0,
  };
};

const askedVolumes = 10;

const sideOf = async (dir: string, redis: BenchRedis, size: ScaleSize): Promise<Side> => {
  const stateDir = path.join(dir, String(size.volumes));
  const store = await openBenchStore(redis.url, stateDir);
  const nodeStore = createNodeStore({
    store,
    clock: systemClock,
    ids: { uuid: () => crypto.randomUUID(), random: Math.random },
    signal: new AbortController().signal,
  });
  const change = nodeStore.changes({ saw: () => undefined });
  for (let index = 0; index < size.nodes; index += 1) {
    const record = nodeRecord(index);
    await change(record.name, () => record);
  }
  const before = await redis.usedBytes();
  await loadVolumes(store, size);
  const bytesPerVolume = ((await redis.usedBytes()) - before) / size.volumes;
  await store.close();

  const file = path.join(import.meta.dirname, "scale-main.ts");
  const command: readonly [string, ...string[]] = [
    process.execPath,
    file,
    redis.url,
    stateDir,
    ...[size.volumes, size.nodes].map(String),
  ];
  const controller: ManagedProcess = startProcess({ name: `controller of ${size.volumes}`, command });
  const line = await controller.line((one) => one["message"] === "ready", "its line `ready`");
  const channel = createChannel(String(line["address"]));
  const volumes = createClient(VolumeServiceDefinition, channel);
  const claims = createClient(ClaimServiceDefinition, channel);
  const placement = createClient(PlacementServiceDefinition, channel);
  const waitFor = { seconds: 30n, nanos: 0 };
  /** Spread over all of them, so that what the controller remembers is of no more help than it is in life. */
  const some = (turn: number): number => (turn * 7_919) % size.volumes;
  return {
    size,
    bytesPerVolume,
    startMs: Number(line["startMs"]),
    calls: {
      async "list page"(turn) {
        const { nextPageToken } = await volumes.listVolumes({ filter: { namespace: "default" }, pageSize: 100 });
        if (turn % 8 === 0)
          await volumes.listVolumes({ filter: { namespace: "default" }, pageSize: 100, pageToken: nextPageToken });
      },
      async get(turn) {
        await volumes.getVolume({ namespace: "default", id: takenName(some(turn)) });
      },
      async placement(turn) {
        const wanted = Array.from({ length: askedVolumes }, (_, i) => ({ volume: freeName(turn + i) }));
        await placement.checkPlacement({ namespace: "default", workload: "asker", claims: wanted, pageSize: 100 });
      },
      async claim(turn) {
        const workload = `bench-${turn}`;
        const node = nodeName(turn % size.nodes);
        const spec = [{ volume: freeName(turn), alias: "data" }];
        const made = await claims.createClaims({ namespace: "default", workload, node, claims: spec, waitFor });
        if (made.claims[0]?.state !== ClaimState.CLAIM_STATE_ACTIVE) throw new Error("a claim did not become active");
        await claims.releaseClaims({ namespace: "default", workload, waitFor });
      },
    },
    async stop() {
      channel.close();
      await controller.kill("SIGTERM");
    },
  };
};

const figuresOf = (side: Side, times: Readonly<Record<ScaleCall, number[]>>): ScaleFigures => ({
  ...side.size,
  bytesPerVolume: side.bytesPerVolume,
  startMs: side.startMs,
  ms: {
    "list page": spreadOf(times["list page"]),
    get: spreadOf(times.get),
    placement: spreadOf(times.placement),
    claim: spreadOf(times.claim),
  },
});

const noTimes = (): Record<ScaleCall, number[]> => ({ "list page": [], get: [], placement: [], claim: [] });

/** The same calls by turns to a small installation and to a large one, so that a busy moment of the machine falls on both. */
export const measureScale = async (plan: ScalePlan, startRedis: () => Promise<BenchRedis>): Promise<Scale> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-scale-"));
  const sides: Side[] = [];
  try {
    for (const size of [plan.small, plan.large]) sides.push(await sideOf(dir, await startRedis(), size));
    const times = sides.map(noTimes);
    const warmUp = Math.min(100, plan.calls);
    for (let turn = -warmUp; turn < plan.calls; turn += 1)
      for (const call of scaleCalls) {
        if (call === "claim" && turn % 4 !== 0) continue;
        // Who comes first changes by turns.
        for (const at of turn % 2 === 0 ? [0, 1] : [1, 0]) {
          const begun = performance.now();
          await sides[at]?.calls[call](turn + warmUp);
          if (turn >= 0) times[at]?.[call].push(performance.now() - begun);
        }
      }
    const [small, large] = sides.map((side, at) => figuresOf(side, times[at] ?? noTimes()));
    if (small === undefined || large === undefined) throw new Error("a side is missing");
    return { small, large };
  } finally {
    for (const side of sides) await side.stop();
    await rm(dir, { recursive: true, force: true });
  }
};
