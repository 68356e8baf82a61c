/** D15 for snapshots and groups: while a call has no answer, the record, its lists and what explains its volume say which call it is. */
import { explainCuts } from "@holdfast/controller/commands/explain/explain-cuts";
import { longCallMs } from "@holdfast/csi/call-policy";
import { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, onTestFinished, test } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { serveCuts } from "../support/controller/served-cuts.ts";
import { createSnapshotWorld, simPlugin } from "../support/controller/snapshot-world.ts";

const slowMs = 30_000;

test.each([
  ["snapshot", "CreateSnapshot", "status", "list"],
  ["group", "CreateVolumeGroupSnapshot", "group-status", "list-groups"],
] as const)("%s: %s in the API, in Explain and on the command line", async (kind, method, status, list) => {
  const world = await createSnapshotWorld();
  onTestFinished(() => world.close());
  const { address, close } = await serveCuts(world);
  onTestFinished(close);
  const channel = createGrpcChannel(address);
  onTestFinished(() => channel.close());
  const api = createGrpcClient(SnapshotServiceDefinition, channel, { log: createMemoryLogger() });
  const volume = await world.makeVolume("data", { capacity: { required: 0, limit: 0 } });

  let calls = 0;
  world.transport.chance((asked) => {
    if (asked !== method) return undefined;
    calls += 1;
    return calls === 1 ? { kind: "code", code: "INTERNAL", when: "before" } : { kind: "slow", ms: slowMs, done: true };
  });
  await (kind === "group" ? world.group("x", { "x-data": "data" }) : world.snapshot("x", "data"));
  const recordNow = async () =>
    kind === "group"
      ? (await api.getSnapshotGroup({ namespace: "default", id: "x" })).group
      : (await api.getSnapshot({ namespace: "default", id: "x" })).snapshot;
  const cli = async (...words: readonly string[]): Promise<string> => {
    const { code, out, err } = await cliRun(["snapshot", ...words], { address });
    expect(code, err).toBe(0);
    return out;
  };

  /** Beside a call that has no answer the controller does not come to rest. */
  const flows = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 200) {
      await world.clock.advance(200);
      await new Promise(setImmediate);
    }
  };
  // A call that has only begun is nobody's concern.
  while (calls < 2) await flows(200);
  expect((await recordNow())?.call).toBeUndefined();
  await flows(longCallMs + 1_000);
  const call = (await recordNow())?.call;
  expect(call).toMatchObject({
    ...{ method, plugin: simPlugin, node: "", attempt: 2, instance: expect.stringContaining("sim") },
    lastAnswer: { csiMethod: method, csiCode: "INTERNAL", attempt: 1 },
  });
  expect(call?.deadline?.getTime()).toBeGreaterThan(call?.since?.getTime() ?? Number.POSITIVE_INFINITY);
  const listed =
    kind === "group"
      ? (await api.listSnapshotGroups({})).groups.map((one) => one.call?.method)
      : (await api.listSnapshots({})).snapshots.map((one) => one.call?.method);
  expect(listed).toEqual([method]);
  const { findings } = await explainCuts(world.cuts, volume);
  expect(findings.join("\n")).toContain(`waits for ${method} (attempt 2): plugin instance`);
  expect(await cli(status, "x")).toMatch(new RegExp(`Call: +${method} at .*attempt 2`));
  expect(await cli(list, "-o", "wide")).toMatch(new RegExp(`CALL\\s[^]*${method} at `));
  expect(await cli(list)).not.toContain(method);

  // Its answer ends it.
  await flows(slowMs);
  expect((await recordNow())?.call).toBeUndefined();
  expect(await cli(list, "-o", "wide")).not.toContain(method);
});
