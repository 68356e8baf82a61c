/** promtool, of the version that docker-compose.yml starts, reads the alerts and each query of docs/slo.md, and finds none that is written wrongly. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { full } from "../support/full.ts";
import { buildGoProgram, goModule, root, runToEnd } from "../support/run-go.ts";

/** Prometheus 3.7.3. */
const prometheus = {
  module: "github.com/prometheus/prometheus@v0.307.3",
  sum: "h1:zGIN3EpiKacbMatcUL2i6wC26eRWXdoXfNPjoBc2l34=",
};
const minute = 60_000;

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-promtool-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

describe.runIf(full)("promtool", () => {
  const promtool = async (args: readonly string[]) =>
    await runToEnd(
      await buildGoProgram(
        "promtool",
        await goModule(prometheus.module, prometheus.sum),
        "./cmd/promtool",
        40 * minute,
      ),
      args,
      minute,
    );

  test("takes the alerts", { timeout: 45 * minute }, async () => {
    const { code, output } = await promtool(["check", "rules", path.join(root, "deploy/prometheus/alerts.yml")]);
    expect([code, output]).toEqual([0, expect.stringMatching(/SUCCESS: \d+ rules found/)]);
  });

  test("takes each query of the service levels, and not one that is cut short", { timeout: 45 * minute }, async () => {
    const page = await readFile(path.join(root, "docs/slo.md"), "utf8");
    const queries = [...page.matchAll(/^```promql\n(.*)\n```$/gm)].map(([, query = ""]) => query);
    expect(queries.length).toBeGreaterThan(10);
    const file = path.join(dir, "queries.yml");
    const check = async (asked: readonly string[]) => {
      const rules = asked.map((expr, i) => ({ record: `level:query_${i}`, expr }));
      await writeFile(file, JSON.stringify({ groups: [{ name: "levels", rules }] }));
      return await promtool(["check", "rules", file]);
    };
    const { code, output } = await check(queries);
    expect([code, output]).toEqual([0, expect.stringContaining(`${queries.length} rules found`)]);
    expect((await check(queries.map((query) => query.slice(0, -1)))).code).not.toBe(0);
  });
});
