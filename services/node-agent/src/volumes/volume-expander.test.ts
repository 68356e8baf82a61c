import { describe, expect, test } from "vitest";
import type { ExpandOrder } from "../domain/volume-figures.ts";
import type { CallFailure } from "../ports.ts";
import {
  anyCaller,
  modelPaths,
  permitOrder,
  releaseOrder,
  startModelAgent,
  volumeRef,
} from "../testing/model-agent.ts";

const target = modelPaths.of(volumeRef.plugin, volumeRef.externalId).target("a");
const order: ExpandOrder = {
  ref: volumeRef,
  nodeEpoch: 1,
  capacity: { requiredBytes: 20n, limitBytes: 0n },
  usedAs: undefined,
  secrets: {},
};

const refusal = (changes: Partial<CallFailure> = {}): CallFailure => ({
  method: "NodeExpandVolume",
  code: "OUT_OF_RANGE",
  message: "too much",
  sent: true,
  advice: "fail",
  needs: "",
  ...changes,
});

describe("growing a volume", () => {
  test("that is published: one call, at its target, without a record of its own", async () => {
    const { volumes, host, ledger } = await startModelAgent();
    await volumes().publish(permitOrder("a", 5), anyCaller);
    const syncs = ledger().syncs();
    expect(await volumes().expand(order, anyCaller)).toEqual({ kind: "expanded", capacityBytes: 20n });
    expect(host.calls.at(-1)).toBe(`NodeExpandVolume ext-1 ${target}`);
    expect(ledger().syncs()).toBe(syncs);
  });

  test("that is not here, or was released: no call, and what to do instead", async () => {
    const { volumes, host } = await startModelAgent();
    const notHere = { kind: "not-expanded", failure: { reason: "VOLUME_NOT_HERE", method: "", code: "" } };
    expect(await volumes().expand(order, anyCaller)).toMatchObject(notHere);
    await volumes().publish(permitOrder("a", 5), anyCaller);
    await volumes().release(releaseOrder("a", 5), anyCaller);
    const before = host.calls.length;
    const answer = await volumes().expand(order, anyCaller);
    expect(answer).toMatchObject({ ...notHere, message: expect.stringContaining("expand_to") });
    expect(host.calls).toHaveLength(before);
  });

  test("whose mount has vanished, or whose plugin is away: nothing is called, and it is owed", async () => {
    const { volumes, host } = await startModelAgent();
    await volumes().publish(permitOrder("a", 5), anyCaller);
    host.setPluginAway(true);
    expect(await volumes().expand(order, anyCaller)).toMatchObject({ halt: { reason: "PLUGIN_NOT_READY" } });
    host.setPluginAway(false);
    host.unmount(target);
    const answer = await volumes().expand(order, anyCaller);
    expect(answer).toMatchObject({ kind: "uncertain", halt: { reason: "MOUNT_MISSING" } });
    expect(host.calls.filter((call) => call.startsWith("NodeExpand"))).toEqual([]);
  });

  test("a refusal for certain is told as one; all else is uncertain", async () => {
    const { volumes, host } = await startModelAgent();
    await volumes().publish(permitOrder("a", 5), anyCaller);
    host.figures.expand = () => ({ kind: "refused", failure: refusal() });
    expect(await volumes().expand(order, anyCaller)).toMatchObject({
      kind: "not-expanded",
      failure: { method: "NodeExpandVolume", code: "OUT_OF_RANGE" },
      message: expect.stringContaining("too much"),
    });
    const lost = refusal({ code: "DEADLINE_EXCEEDED", advice: "again" });
    host.figures.expand = () => ({ kind: "unknown", failure: lost });
    expect(await volumes().expand(order, anyCaller)).toMatchObject({
      kind: "uncertain",
      halt: { code: "DEADLINE_EXCEEDED", method: "NodeExpandVolume" },
    });
  });

  test("an order for another incarnation of the node is refused", async () => {
    const { volumes } = await startModelAgent();
    await volumes().publish(permitOrder("a", 5), anyCaller);
    const answer = await volumes().expand({ ...order, nodeEpoch: 2 }, anyCaller);
    expect(answer).toMatchObject({ kind: "refused", reason: "NODE_EPOCH" });
  });

  test("waits for its turn at the volume: never beside another call for it", async () => {
    const { volumes, host } = await startModelAgent();
    await volumes().publish(permitOrder("a", 5), anyCaller);
    const releasing = volumes().release(releaseOrder("a", 5), anyCaller);
    const growing = volumes().expand(order, anyCaller);
    expect(await releasing).toMatchObject({ kind: "released" });
    expect(await growing).toMatchObject({ kind: "not-expanded" });
    expect(host.calls.at(-1)).toMatch(/^NodeUnstageVolume/);
  });
});

describe("growth that a permit owes", () => {
  const owing = () => {
    const made = permitOrder("a", 5);
    return { ...made, contents: { ...made.contents, expandTo: { requiredBytes: 20n, limitBytes: 0n } } };
  };

  test("is done after the stage and the publication, and told with them", async () => {
    const { volumes, host } = await startModelAgent();
    const answer = await volumes().publish(owing(), anyCaller);
    expect(answer).toMatchObject({ kind: "published", expansion: { kind: "expanded", capacityBytes: 20n } });
    expect(host.calls.map((call) => call.split(" ")[0])).toEqual([
      "NodeStageVolume",
      "NodePublishVolume",
      "NodeExpandVolume",
    ]);
  });

  test("that fails does not keep the workload from its volume", async () => {
    const { volumes, host } = await startModelAgent();
    host.figures.expand = () => ({ kind: "refused", failure: refusal() });
    const answer = await volumes().publish(owing(), anyCaller);
    expect(answer).toMatchObject({ kind: "published", expansion: { kind: "not-expanded" } });
  });

  test("is asked for again with the same permit, and not without", async () => {
    const { volumes, host } = await startModelAgent();
    await volumes().publish(owing(), anyCaller);
    await volumes().publish(permitOrder("a", 5), anyCaller);
    await volumes().publish(owing(), anyCaller);
    expect(host.calls.filter((call) => call.startsWith("NodeExpand"))).toHaveLength(2);
  });
});
