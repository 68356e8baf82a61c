import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { startFloor } from "../bench/floor/floor.ts";
import { measureHotPath } from "../bench/hot-path.ts";
import { startProduct } from "../bench/product.ts";
import { startBenchRedis } from "../bench/support/redis.ts";
import { verdictsOf } from "../bench/verdicts.ts";

const root = process.getuid?.() === 0;

/** Runs what was started in reverse, also when the test fails. */
const stopsOf = (): { readonly later: (stop: () => Promise<unknown>) => void; readonly all: () => Promise<void> } => {
  const stops: (() => Promise<unknown>)[] = [];
  return {
    later: (stop) => void stops.push(stop),
    all: async () => {
      for (const stop of stops.reverse()) await stop();
    },
  };
};

// The bench itself decides about ratios, which a busy machine blurs; what it counts is the same everywhere.
test.runIf(root)(
  "a claim and a release cost three commits and at most three journal syncs each",
  async () => {
    const { later, all } = stopsOf();
    try {
      const dir = await mkdtemp(path.join(tmpdir(), "hfb-"));
      later(() => rm(dir, { recursive: true, force: true }));
      const redis = await startBenchRedis();
      later(redis.stop);
      const [volumes, standing] = [10, 2];
      const floor = await startFloor({ dir, redis: redis.url, volumes, plugins: "working" });
      later(floor.stop);
      const product = await startProduct({ store: redis.url, volumes: volumes + standing, nodes: 1 });
      later(product.stop);
      const hotPath = await measureHotPath(floor, product, redis, { volumes, standing, rounds: 1 });

      const counts = verdictsOf({ hotPath }).filter((v) => v.kind === "count");
      expect(counts).toHaveLength(6);
      expect(counts.filter(({ holds }) => !holds)).toEqual([]);
      expect(hotPath.claim.commits).toBe(3);
      expect(hotPath.release.commits).toBe(3);
    } finally {
      await all();
    }
  },
  120_000,
);
