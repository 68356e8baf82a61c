/**
 * `npm run bench`: what the orchestrator adds to the plugins' own time, beside a floor of the same calls, commits and syncs made by
 * bare processes in the same run. Ratios and counts mean the same on every machine, milliseconds do not.
 *
 *   --quick    less of everything, under a minute       --json     the figures as JSON
 *   --strict   a ratio that is missed fails the run     --only     sections: hot-path,traced,throughput,reactions,volumes,agents
 *   --profile  a directory for CPU profiles of the services
 */
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { startOtlpReceiver } from "../test/harness/otlp-receiver.ts";
import type { Figures } from "./figures.ts";
import { startFloor } from "./floor/floor.ts";
import { measureHotPath } from "./hot-path.ts";
import { measureAgentMemory, measureVolumeMemory } from "./memory.ts";
import { type Plan, plans } from "./plan.ts";
import { type Product, startProduct } from "./product.ts";
import { measureReactions } from "./reactions.ts";
import { reportOf } from "./report.ts";
import { type BenchRedis, startBenchRedis } from "./support/redis.ts";
import type { Subject } from "./support/subject.ts";
import { measureThroughput } from "./throughput.ts";
import { fails, verdictsOf } from "./verdicts.ts";

const sections = ["hot-path", "traced", "throughput", "reactions", "volumes", "agents"] as const;
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

const measure = async (wanted: ReadonlySet<Section>, plan: Plan, dir: string): Promise<Figures> => {
  const stops: (() => Promise<void>)[] = [];
  const startedRedis = async (): Promise<BenchRedis> => {
    const redis = await startBenchRedis();
    stops.push(redis.stop);
    return redis;
  };
  const asked = (...names: readonly Section[]): boolean => names.some((name) => wanted.has(name));
  try {
    const redis = await startedRedis();
    const machine = { cores: availableParallelism(), node: process.versions.node, redis: await redis.version() };
    const figures: Mutable<Figures> = { machine };
    const floor: Subject = await startFloor({ dir, redis: redis.url });
    stops.push(floor.stop);
    if (asked("hot-path", "reactions"))
      await withProduct({ store: redis.url, volumes: plan.hotPath.volumes, nodes: 1, ...profiled }, async (product) => {
        if (asked("hot-path")) {
          say("one at a time …");
          figures.hotPath = await measureHotPath(floor, product, redis, plan.hotPath);
        }
        if (asked("reactions")) {
          say("reactions …");
          figures.reactions = await measureReactions(product, plan.reactions);
        }
      });
    if (asked("throughput")) {
      const volumes = Math.max(...plan.throughput.map((each) => each.volumes));
      const store = await startedRedis();
      await withProduct({ store: store.url, volumes, nodes: plan.nodes, ...profiled }, async (product) => {
        const found = [];
        for (const each of plan.throughput) {
          say(`${each.inFlight} in flight …`);
          found.push(await measureThroughput(floor, product, each));
        }
        figures.throughput = found;
      });
    }
    if (asked("traced")) {
      say("one at a time, traced …");
      const [traces, store] = [await startOtlpReceiver(), await startedRedis()];
      stops.push(traces.close);
      const options = { store: store.url, volumes: plan.traced.volumes, nodes: 1, otlpEndpoint: traces.endpoint };
      figures.tracedHotPath = await withProduct(options, (product) =>
        measureHotPath(floor, product, store, plan.traced),
      );
    }
    if (asked("volumes")) {
      say(`${plan.volumes} volumes, SQLite, then Redis …`);
      figures.volumeMemory = [
        await measureVolumeMemory(plan.volumes, undefined),
        await measureVolumeMemory(plan.volumes, await startedRedis()),
      ];
    }
    if (asked("agents")) {
      say(`${plan.agents} agents …`);
      figures.agentMemory = await measureAgentMemory(plan.agents);
    }
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
    return fails(verdicts, values.strict) ? 1 : 0;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
};

process.exit(await main());
