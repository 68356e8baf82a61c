/**
 * `npm run bench`: what the orchestrator adds to the plugins' own time, beside a floor of the same calls, commits and syncs made in
 * the same run: by bare processes in `hot-path`, by processes with deadlines, retries and spans of their own in `traced`, which is
 * where the ratio is judged; `traced-tls` is the same by TLS. Ratios and counts mean the same on every machine, milliseconds do not.
 *
 *   --quick    less of everything, under a minute       --json     the figures as JSON
 *   --strict   a ratio that is missed fails the run     --only     sections: hot-path,traced,traced-tls,throughput,reactions,lanes,shared,volumes,agents,host,scale
 *   --profile  a directory for CPU profiles of the services
 */
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { startOtlpReceiver } from "../test/harness/otlp-receiver.ts";
import { measureAgentStreams } from "./agents.ts";
import { measureBesideTransfers } from "./beside-transfers.ts";
import type { Figures } from "./figures.ts";
import { startFloor } from "./floor/floor.ts";
import { measureLongTable, measurePublications } from "./host-measures.ts";
import { type HotPathPlan, measureHotPath } from "./hot-path.ts";
import { measureLanes } from "./lanes.ts";
import { measureAgentMemory, measureVolumeMemory } from "./memory.ts";
import { type Plan, plans } from "./plan.ts";
import { type Product, startProduct } from "./product.ts";
import { measureReactions } from "./reactions.ts";
import { reportOf } from "./report.ts";
import { measureScale } from "./scale.ts";
import { measureSharedControllers } from "./shared-controllers.ts";
import { type BenchCertificates, createBenchCertificates } from "./support/bench-certificates.ts";
import { inspected } from "./support/kept-bytes.ts";
import { type BenchRedis, startBenchRedis } from "./support/redis.ts";
import { measureThroughput } from "./throughput.ts";
import { fails, verdictsOf } from "./verdicts.ts";

const sections = [
  "hot-path",
  "traced",
  "traced-tls",
  "throughput",
  "reactions",
  "lanes",
  "shared",
  "volumes",
  "agents",
  "host",
  "scale",
] as const;
type Section = (typeof sections)[number];
type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    strict: { type: "boolean", default: false },
    profile: { type: "string" },
    only: { type: "string", default: sections.join(",") },
  },
});

const profiled = values.profile === undefined ? {} : { profileDir: values.profile };

const say = (text: string): void => console.error(`holdfast bench: ${text}`);

const withProduct = async <T>(
  options: Parameters<typeof startProduct>[0],
  use: (product: Product) => Promise<T>,
): Promise<T> => {
  const product = await startProduct(options);
  try {
    return await use(product);
  } catch (error) {
    console.error(product.cluster.output().split("\n").slice(-60).join("\n"));
    throw error;
  } finally {
    await product.stop();
  }
};

const allOf = ({ volumes, standing }: HotPathPlan): number => volumes + standing;

const measure = async (wanted: ReadonlySet<Section>, plan: Plan, dir: string): Promise<Figures> => {
  const stops: (() => Promise<void>)[] = [];
  const startedRedis = async (): Promise<BenchRedis> => {
    const redis = await startBenchRedis();
    stops.push(redis.stop);
    return redis;
  };
  const failed: string[] = [];
  /** A section that fails spares the others, and fails the run. */
  const section = async (name: Section, act: () => Promise<void>): Promise<void> => {
    if (!wanted.has(name)) return;
    say(`${name} …`);
    await act().catch((error: unknown) => {
      failed.push(name);
      console.error(error);
    });
  };
  try {
    const redis = await startedRedis();
    const machine = { cores: availableParallelism(), node: process.versions.node, redis: await redis.version() };
    const figures: Mutable<Figures> = { machine, failed };
    const most = Math.max(plan.hotPath.volumes, ...plan.throughput.map((each) => each.volumes));
    const floor = await startFloor({ dir, redis: redis.url, volumes: most, plugins: "still" });
    stops.push(floor.stop);

    await section("hot-path", () =>
      withProduct({ store: redis.url, volumes: allOf(plan.hotPath), nodes: 1, ...profiled }, async (product) => {
        figures.hotPath = await measureHotPath(floor, product, redis, plan.hotPath);
      }),
    );
    /** Both sides with every span exported, and by TLS where there are certificates. */
    const traced = async (plugins: "still" | "working", hotPath: HotPathPlan, certificates?: BenchCertificates) => {
      const { endpoint: otlpEndpoint, close } = await startOtlpReceiver();
      stops.push(close);
      const [store, at] = [await startedRedis(), await mkdtemp(path.join(dir, "t"))];
      const common = { otlpEndpoint, volumes: hotPath.volumes };
      const tls = certificates === undefined ? {} : { tlsDir: certificates.floorDir };
      const alike = await startFloor({ dir: at, redis: store.url, plugins, ...common, ...tls });
      const options = { store: store.url, otlpEndpoint, volumes: allOf(hotPath), nodes: 1, ...profiled };
      const given = certificates === undefined ? options : { ...options, certificates };
      return await withProduct(given, (product) => measureHotPath(alike, product, store, hotPath)).finally(alike.stop);
    };
    await section("traced", async () => {
      figures.tracedHotPath = await traced("working", plan.traced);
      figures.besideStillPlugin = await traced("still", plan.besideStillPlugin);
    });
    await section("traced-tls", async () => {
      const names = { node: "node-0", operator: "test", scheduler: "bench" };
      const certificates = await createBenchCertificates(path.join(dir, "tls"), names);
      figures.tlsHotPath = await traced("working", plan.tracedTls, certificates).finally(certificates.stop);
    });
    await section("throughput", async () => {
      const volumes = Math.max(...plan.throughput.map((each) => each.volumes));
      const { url: store } = await startedRedis();
      await withProduct({ store, volumes, nodes: plan.nodes, ...profiled }, async (product) => {
        const found = [];
        for (const each of plan.throughput) found.push(await measureThroughput(floor, product, each));
        figures.throughput = found;
      });
    });
    await section("reactions", async () => {
      const { url: store } = await startedRedis();
      await withProduct({ store, volumes: 1, nodes: 1 }, async (product) => {
        figures.reactions = await measureReactions(product, plan.reactions);
      });
    });
    await section("lanes", async () => {
      figures.lanes = await measureLanes(async () => (await startedRedis()).url, plan.lanes);
    });
    await section("shared", async () => {
      const startStore = async () => (await startedRedis()).url;
      figures.shared = await measureSharedControllers(startStore, plan.shared);
    });
    await section("volumes", async () => {
      const sqlite = await measureVolumeMemory(plan.volumes, undefined);
      figures.volumeMemory = [sqlite, await measureVolumeMemory(plan.volumes, await startedRedis())];
    });
    await section("agents", async () => {
      figures.agentMemory = await measureAgentMemory(plan.agents);
      figures.agentStreams = await measureAgentStreams(plan.streams, await startedRedis());
      figures.besideTransfers = await measureBesideTransfers(plan.transfers);
    });
    await section("host", async () => {
      const { url: store } = await startedRedis();
      await withProduct({ store, volumes: plan.publications, nodes: 1, agentEnv: inspected }, async (product) => {
        figures.publications = await measurePublications(product, plan.publications);
        figures.longMountTable = await measureLongTable(product, plan.tableRounds);
      });
    });
    await section("scale", async () => {
      figures.scale = await measureScale(plan.scale, startedRedis);
    });
    return figures;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
};

const main = async (): Promise<number> => {
  if (process.getuid?.() !== 0) {
    console.error(
      "The bench makes real mounts: run it as root (`sudo npm run bench`), or inside `unshare --user --map-root-user --mount`.",
    );
    return 1;
  }
  const wanted = new Set(sections.filter((section) => values.only.split(",").includes(section)));
  const dir = await mkdtemp(path.join(tmpdir(), "hfb-"));
  try {
    const figures = await measure(wanted, plans[values.quick ? "quick" : "full"], dir);
    const verdicts = verdictsOf(figures);
    console.log(values.json ? JSON.stringify({ ...figures, verdicts }, undefined, 2) : reportOf(figures));
    return figures.failed.length > 0 || fails(verdicts, values.strict) ? 1 : 0;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
};

process.exit(await main());
