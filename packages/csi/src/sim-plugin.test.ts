/** The connection against a plugin that keeps state, polices its caller and misbehaves on order. */
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { createSimPlugin, type SimPlugin, type SimPluginOptions } from "@holdfast/sim-plugin/sim-plugin";
import { afterEach, describe, expect, it } from "vitest";
import type { RequestInput, ResponseOf } from "./messages.ts";
import { methods, type UnaryMethod } from "./methods.ts";
import { type CallOutcome, codes, verdictOf } from "./outcome.ts";
import type { PluginConnection } from "./plugin-connection.ts";
import { reached, useConnectionFixture } from "./testing/connection-fixture.ts";

const { home, signal, connect } = useConnectionFixture();

let plugin: SimPlugin | undefined;
afterEach(() => plugin?.close());

const serving = async (options: Partial<SimPluginOptions> = {}) => {
  const sim = await createSimPlugin({ role: "monolith", node: "node-a", socket: home().socketPath, ...options });
  plugin = sim;
  const connection = connect();
  await connection.whenReady(signal());
  sim.backend.clear();
  return { sim, connection };
};

const volumeCapability = { mount: {}, accessMode: { mode: 1 as const } };

/** One volume's whole life as the eight mutating calls, each made when it is reached. */
const lifeOf = (connection: PluginConnection) => {
  const staging = path.join(home().dir, "staging");
  const target = path.join(home().dir, "target");
  const seen = { volumeId: "", volumeContext: {}, publishContext: {} };
  const call = <M extends UnaryMethod>(
    method: M,
    request: RequestInput<M>,
    keep: (reply: ResponseOf<M>) => void = () => undefined,
  ) => ({
    method,
    run: async (): Promise<CallOutcome<unknown>> => {
      const outcome = await connection.call(method, request, { signal: signal(), deadlineMs: 2_000 });
      if (outcome.outcome === "done") keep(outcome.value);
      return outcome;
    },
  });
  const steps = [
    () =>
      call("CreateVolume", { name: "one", volumeCapabilities: [volumeCapability] }, ({ volume }) =>
        Object.assign(seen, { volumeId: volume?.volumeId, volumeContext: volume?.volumeContext }),
      ),
    () =>
      call(
        "ControllerPublishVolume",
        { ...pick("volumeId", "volumeContext"), nodeId: nodeId(), volumeCapability },
        ({ publishContext }) => Object.assign(seen, { publishContext }),
      ),
    () => call("NodeStageVolume", { ...seen, stagingTargetPath: staging, volumeCapability }),
    () => call("NodePublishVolume", { ...seen, stagingTargetPath: staging, targetPath: target, volumeCapability }),
    () => call("NodeUnpublishVolume", { ...pick("volumeId"), targetPath: target }),
    () => call("NodeUnstageVolume", { ...pick("volumeId"), stagingTargetPath: staging }),
    () => call("ControllerUnpublishVolume", { ...pick("volumeId"), nodeId: nodeId() }),
    () => call("DeleteVolume", pick("volumeId")),
  ];
  const nodeId = (): string => connection.status().facts?.nodeInfo?.nodeId ?? "";
  const pick = <K extends keyof typeof seen>(...keys: K[]): Pick<typeof seen, K> =>
    Object.fromEntries(keys.map((key) => [key, seen[key]])) as Pick<typeof seen, K>;
  return { steps, prepare: () => mkdir(staging) };
};

const mutating: readonly UnaryMethod[] = [
  "CreateVolume",
  "ControllerPublishVolume",
  "NodeStageVolume",
  "NodePublishVolume",
  "NodeUnpublishVolume",
  "NodeUnstageVolume",
  "ControllerUnpublishVolume",
  "DeleteVolume",
];

describe("with the simulated plugin", () => {
  it("a volume lives and ends, and the plugin finds no fault with its caller", async () => {
    const { sim, connection } = await serving();
    const { steps, prepare } = lifeOf(connection);
    await prepare();
    for (const step of steps) expect((await step().run()).outcome).toBe("done");
    expect(sim.backend.violations()).toEqual([]);
    expect(sim.backend.state().volumes.size).toBe(0);
    expect(sim.backend.record().map(({ method }) => method)).toEqual(mutating);
  });

  it.each(mutating)(
    "the answer of %s is lost: unknown, and the same call again ends in the same state",
    async (method) => {
      const { sim, connection } = await serving({ faults: [{ method, dropReply: true }] });
      const { steps, prepare } = lifeOf(connection);
      await prepare();
      for (const step of steps) {
        const { method: now, run } = step();
        const first = await run();
        if (now === method) {
          expect(first).toMatchObject({ outcome: "unknown", failure: { sent: true } });
          await connection.whenReady(signal());
          await expect.poll(run).toMatchObject({ outcome: "done" });
        } else expect(first.outcome, now).toBe("done");
      }
      expect(sim.backend.violations()).toEqual([]);
      expect(sim.backend.state().volumes.size).toBe(0);
    },
  );

  it.each(mutating)("%s comes back with the verdict of the table for every code", async (method) => {
    const { sim, connection } = await serving();
    const { steps, prepare } = lifeOf(connection);
    await prepare();
    for (const step of steps) {
      const { method: now, run } = step();
      if (now !== method) {
        expect((await run()).outcome).toBe("done");
        continue;
      }
      // UNIMPLEMENTED comes last: nothing is sent after it.
      const others = codes.filter((code) => code !== "OK" && code !== "UNIMPLEMENTED");
      for (const code of [...others, "UNIMPLEMENTED"] as const) {
        sim.backend.setFaults([{ method, code, message: `says ${code}` }]);
        const verdict = verdictOf(methods[method].callKind, code);
        const outcome = await run();
        expect(outcome.outcome, code).toBe(verdict.outcome);
        if (outcome.outcome !== "done") expect(outcome.failure).toMatchObject({ method, code, verdict, sent: true });
      }
      const calls = sim.backend.record().length;
      expect(await run()).toMatchObject({ outcome: "unknown", failure: { code: "UNAVAILABLE", sent: false } });
      expect(sim.backend.record()).toHaveLength(calls);
      expect(sim.backend.violations()).toEqual([]);
      return;
    }
  });

  it("malformed replies are unknown, for what they are", async () => {
    const { sim, connection } = await serving();
    const create = async (
      malformed: "missing-id" | "oversize-id" | "control-characters-in-id" | "oversize-context" | "negative-capacity",
    ) => {
      sim.backend.setFaults([{ method: "CreateVolume", malformed }]);
      const request = { name: malformed, volumeCapabilities: [volumeCapability] };
      const outcome = await connection.call("CreateVolume", request, { signal: signal() });
      expect(outcome.outcome, malformed).toBe("unknown");
      return outcome.outcome === "done" ? "" : outcome.failure.message;
    };
    expect(await create("missing-id")).toBe("malformed reply: volume.volume_id is required");
    expect(await create("oversize-id")).toMatch(/volume\.volume_id has \d+ bytes, at most 128/);
    expect(await create("control-characters-in-id")).toContain("volume.volume_id has control characters");
    expect(await create("oversize-context")).toMatch(/volume\.volume_context has \d+ bytes, at most 4096/);
    expect(await create("negative-capacity")).toContain("volume.capacity_bytes must not be negative");
  });

  it("a process that dies under a call is connected to again, and asked who it is, before the call is made again", async () => {
    const { sim, connection } = await serving({ faults: [{ method: "CreateVolume", die: "after" }] });
    const request = { name: "one", volumeCapabilities: [volumeCapability] };
    const first = await connection.call("CreateVolume", request, { signal: signal() });
    expect(first).toMatchObject({ outcome: "unknown", failure: { sent: true } });
    await reached(connection, "waiting");
    sim.backend.clear();
    await sim.restart();
    await connection.whenReady(signal());
    expect((await connection.call("CreateVolume", request, { signal: signal() })).outcome).toBe("done");
    expect(sim.backend.state().volumes.size).toBe(1);
    const asked = sim.backend.record().map(({ method }) => method);
    expect(asked.indexOf("GetPluginInfo")).toBeGreaterThanOrEqual(0);
    expect(asked.at(-1)).toBe("CreateVolume");
    expect(sim.backend.violations()).toEqual([]);
  });

  it("no call is sent that its capabilities leave out", async () => {
    const { sim, connection } = await serving({ capabilities: { only: ["plugin.CONTROLLER_SERVICE"] } });
    const { steps } = lifeOf(connection);
    const [create] = steps;
    expect(await create?.().run()).toMatchObject({
      outcome: "refused",
      failure: { code: "UNIMPLEMENTED", sent: false },
    });
    expect(sim.backend.record()).toEqual([]);
  });
});
