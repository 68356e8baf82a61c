/** What Jaeger and Prometheus of the compose file have to show of the services beside them. */
import { expect } from "vitest";
import { until } from "../harness/until.ts";
import { spansOf } from "../support/jaeger-api.ts";
import type { ComposeRun } from "./compose-run.ts";

export const observeOneNode = async ({ engine, cell, observers, tell }: ComposeRun): Promise<void> => {
  await engine.compose(["--profile", "observability", "up", "-d", "--no-build", "jaeger", "prometheus"]);
  await expect.poll(observers.targets, { timeout: 90_000 }).toEqual(["controller:7601 up", "node-a:7611 up"]);
  await expect
    .poll(async () => (await observers.rules()).filter(({ health }) => health !== "ok"), { timeout: 30_000 })
    .toEqual([]);
  expect((await observers.rules()).length).toBeGreaterThan(20);
  const found = await observers.dashboards();
  expect(found.size).toBeGreaterThan(20);
  tell(`${[...found.values()].filter((series) => series > 0).length} of ${found.size} queries find series`);
  // What was away for a while is dialled again after a while.
  await cell.createVolume("probe", "local.holdfast.dev", "directory");
  const from = performance.now();
  await until(
    "spans of controller and agent in Jaeger",
    async () => {
      await cell.cli(["claim", "create", "probe", "probe", "--node", "node-a"]);
      await cell.cli(["claim", "release", "probe"]);
      const services = await observers.jaeger.services();
      return services.includes("holdfast-controller") && services.includes("holdfast-node-agent");
    },
    180_000,
  );
  tell(`spans are in Jaeger ${((performance.now() - from) / 1000).toFixed(0)} s after it was started`);
  await cell.cli(["volume", "delete", "probe"]);
  for (const service of ["controller", "node-a"])
    expect((await cell.logOf(service)).match(/"message":"tracing: spans are exported again/g)).toHaveLength(1);
};

export const observeTwoNodes = async ({ cell, observers, tell }: ComposeRun): Promise<void> => {
  await expect
    .poll(observers.targets, { timeout: 90_000 })
    .toEqual(["controller:7601 up", "node-a:7611 up", "node-b:7611 up"]);
  const { claims } = JSON.parse(await cell.cli(["--json", "claim", "list"])) as {
    readonly claims: readonly { readonly workload: string; readonly trace_id: string }[];
  };
  const asked = claims.find(({ workload }) => workload === "web-b")?.trace_id;
  const names = async (): Promise<readonly string[]> => {
    const found = await observers.jaeger.search("holdfast-controller", { "holdfast.workload": "web-b" });
    return found
      .filter(({ traceID }) => traceID === asked)
      .flatMap(spansOf)
      .map(({ service, name }) => `${service}: ${name}`);
  };
  await expect
    .poll(names, { timeout: 60_000 })
    .toEqual(
      expect.arrayContaining([
        "holdfast-controller: holdfast.v1.ClaimService/CreateClaims",
        "holdfast-node-agent: csi.v1.Node/NodePublishVolume",
      ]),
    );
  tell(`the trace of web-b has ${(await names()).length} spans`);
};
