import { describe, expect, test } from "vitest";
import { codeOf, createDriver, type Driver, inMode, live, writer } from "../test-driver.ts";

const create = { name: "one", volumeCapabilities: [writer] };

describe("nobody is blamed", () => {
  test.each([
    [
      "for a volume that is gone",
      {},
      (d: Driver) =>
        d.ask("ControllerExpandVolume", { volumeId: "gone", capacityRange: { requiredBytes: 1n, limitBytes: 0n } }),
      "NOT_FOUND",
    ],
    [
      "for a content source that is gone",
      {},
      (d: Driver) =>
        d.ask("CreateVolume", {
          ...create,
          volumeContentSource: { snapshot: { snapshotId: "gone" }, volume: undefined },
        }),
      "NOT_FOUND",
    ],
    ["for a snapshot that is gone", {}, (d: Driver) => d.ask("GetSnapshot", { snapshotId: "gone" }), "NOT_FOUND"],
    [
      "for a group that is gone",
      {},
      (d: Driver) => d.ask("GetVolumeGroupSnapshot", { groupSnapshotId: "gone", snapshotIds: ["a"] }),
      "NOT_FOUND",
    ],
    [
      "for secrets the storage does not accept",
      { secrets: { CreateVolume: { token: "right" } } },
      (d: Driver) => d.ask("CreateVolume", { ...create, secrets: { token: "wrong" } }),
      "UNAUTHENTICATED",
    ],
  ] as const)("%s", (_, options, act, code) => {
    const driver = createDriver(options);
    expect(codeOf(act(driver))).toBe(code);
    expect(driver.backend.violations()).toEqual([]);
  });

  test("for the same call again while the work of one given up goes on", () => {
    const driver = createDriver();
    const ticket = driver.open("CreateVolume", create);
    driver.backend.abandon(ticket);
    expect(codeOf(driver.ask("CreateVolume", create))).toBe("ABORTED");
    driver.backend.apply(ticket);
    driver.backend.close(ticket, { reply: "sent" });
    expect(driver.backend.record().find((line) => line.seq === ticket)).toMatchObject({
      reply: "abandoned",
      done: true,
      code: "OK",
    });
    expect(codeOf(driver.ask("CreateVolume", create))).toBe("OK");
    expect(driver.backend.violations()).toEqual([]);
  });

  test("for detaching from a node proved dead", () => {
    const driver = createDriver();
    const { volumeId } = live(driver, "published");
    driver.backend.fence("node-a");
    expect(codeOf(driver.ask("ControllerUnpublishVolume", { volumeId, nodeId: "node-a" }))).toBe("OK");
    expect(codeOf(driver.ask("DeleteVolume", { volumeId }))).toBe("OK");
    expect(driver.backend.violations()).toEqual([]);
  });

  test("for a second reader on another node of a volume with one writer", () => {
    const driver = createDriver();
    const lived = live(driver, "attached", inMode("MULTI_NODE_SINGLE_WRITER"));
    expect(codeOf(driver.ask("ControllerPublishVolume", { ...lived, nodeId: "node-b", readonly: true }))).toBe("OK");
    expect(driver.backend.violations()).toEqual([]);
  });
});

describe("what is still in flight counts", () => {
  test("a detach while the stage it would undercut has no answer", () => {
    const driver = createDriver();
    const lived = live(driver, "attached");
    const ticket = driver.open("NodeStageVolume", lived);
    driver.backend.abandon(ticket);
    expect(codeOf(driver.ask("ControllerUnpublishVolume", { volumeId: lived.volumeId, nodeId: "node-a" }))).toBe(
      "FAILED_PRECONDITION",
    );
    expect(driver.backend.violations().map((one) => one.rule)).toEqual(["detach-while-in-use"]);
  });

  test("a stage while the detach has no answer", () => {
    const driver = createDriver();
    const lived = live(driver, "attached");
    driver.open("ControllerUnpublishVolume", { volumeId: lived.volumeId, nodeId: "node-a" });
    expect(codeOf(driver.ask("NodeStageVolume", lived))).toBe("FAILED_PRECONDITION");
    expect(driver.backend.violations().map((one) => one.rule)).toEqual(["stage-before-attach"]);
  });

  test("the last attach slot is taken by the call that is on its way", () => {
    const driver = createDriver({ nodes: { "node-a": { maxVolumes: 1 } } });
    driver.open("ControllerPublishVolume", { ...live(driver, "created"), nodeId: "node-a" });
    const two = live(driver, "created", writer, "two");
    expect(codeOf(driver.ask("ControllerPublishVolume", { ...two, nodeId: "node-a" }))).toBe("RESOURCE_EXHAUSTED");
  });

  test("calls for different volumes, and for one volume on different nodes, run side by side", () => {
    const driver = createDriver();
    const mode = inMode("MULTI_NODE_MULTI_WRITER");
    const lived = live(driver, "attached", mode);
    const { publishContext } = driver.get("ControllerPublishVolume", { ...lived, nodeId: "node-b" });
    driver.open("NodeStageVolume", lived, { node: "node-a" });
    driver.open("NodeStageVolume", { ...lived, publishContext }, { node: "node-b" });
    driver.open("CreateVolume", { ...create, name: "two" });
    driver.open("CreateVolume", { ...create, name: "three" });
    expect(driver.backend.violations()).toEqual([]);
  });
});

describe("a death ends what was in flight", () => {
  test("and the volume is free for the next life", () => {
    const driver = createDriver();
    driver.open("CreateVolume", create);
    driver.backend.detach("controller");
    driver.backend.attach({ name: "controller", role: "controller" });
    expect(codeOf(driver.ask("CreateVolume", create))).toBe("OK");
    expect(driver.backend.record().map(({ reply, done }) => [reply, done])).toEqual([
      ["died", false],
      ["sent", true],
    ]);
    expect(driver.backend.violations()).toEqual([]);
  });
});
