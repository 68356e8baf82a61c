import { describe, expect, test } from "vitest";
import type { BackendOptions } from "../backend.ts";
import { codeOf, createDriver, type Driver, inMode, type Lived, live, writer } from "../test-driver.ts";
import { allRules } from "./police.ts";

const judging = (options: BackendOptions = {}): Driver => createDriver({ judgesArrivals: true, ...options });
/** Only what is judged by the arrival: the other rules blame some of the same calls. */
const arrivals = (driver: Driver): readonly string[] =>
  driver.backend.violations().flatMap(({ rule }) => (rule.startsWith("arrived-") ? [rule] : []));
const create = { name: "one", volumeCapabilities: [writer] };
const detach = ({ volumeId }: Lived) => ({ volumeId, nodeId: "node-a" });

test("whoever does not ask for it gets only the judgement that a backend's state makes", () => {
  const driver = createDriver();
  driver.ask("DeleteVolume", { volumeId: live(driver, "published").volumeId });
  expect(driver.backend.violations()).toHaveLength(1);
  expect(arrivals(driver)).toEqual([]);
  expect(allRules.filter(({ id }) => id.startsWith("arrived-"))).toEqual([]);
});

describe("a volume's whole life, one call after the other", () => {
  test.each(["SINGLE_NODE_WRITER", "MULTI_NODE_MULTI_WRITER"] as const)("blames nobody: %s", (mode) => {
    const driver = judging();
    const lived = live(driver, "published", inMode(mode));
    driver.get("NodeUnpublishVolume", lived);
    driver.get("NodeUnstageVolume", lived);
    driver.get("ControllerUnpublishVolume", detach(lived));
    driver.get("ControllerPublishVolume", { ...lived, nodeId: "node-b" });
    driver.get("ControllerUnpublishVolume", { volumeId: lived.volumeId, nodeId: "node-b" });
    driver.get("DeleteVolume", lived);
    expect(driver.backend.violations()).toEqual([]);
  });
});

describe("a detach", () => {
  test.each(["staged", "published"] as const)("of a pair whose volume is %s there", (step) => {
    const driver = judging();
    expect(codeOf(driver.ask("ControllerUnpublishVolume", detach(live(driver, step))))).toBe("FAILED_PRECONDITION");
    expect(arrivals(driver)).toEqual(["arrived-detach-in-use"]);
  });

  test("counts also when the backend would refuse it for another reason", () => {
    const driver = judging();
    const lived = live(driver, "published");
    driver.open("ControllerExpandVolume", {
      volumeId: lived.volumeId,
      capacityRange: { requiredBytes: 2n ** 31n, limitBytes: 0n },
    });
    driver.ask("ControllerUnpublishVolume", detach(lived));
    expect(arrivals(driver)).toEqual(["arrived-beside-open-call", "arrived-detach-in-use"]);
  });

  test("of a pair whose mount is under way", () => {
    const driver = judging();
    const lived = live(driver, "attached");
    driver.open("NodeStageVolume", lived);
    driver.ask("ControllerUnpublishVolume", detach(lived));
    expect(arrivals(driver)).toEqual(["arrived-detach-in-use"]);
  });
});

describe("an attach of a volume for one node", () => {
  test("while it is attached to another one", () => {
    const driver = judging();
    driver.ask("ControllerPublishVolume", { ...live(driver, "attached"), nodeId: "node-b" });
    expect(arrivals(driver)).toEqual(["arrived-attach-elsewhere-in-use"]);
  });

  test("while it is mounted on another one, although the backend shows no attachment", () => {
    const driver = judging();
    const lived = live(driver, "published");
    driver.backend.detachBehind(lived.volumeId, "node-a");
    expect(codeOf(driver.ask("ControllerPublishVolume", { ...lived, nodeId: "node-b" }))).toBe("FAILED_PRECONDITION");
    expect(arrivals(driver)).toEqual(["arrived-attach-elsewhere-in-use"]);
    driver.backend.fence("node-a");
    driver.get("ControllerPublishVolume", { ...lived, nodeId: "node-b" });
  });
});

test.each(["attached", "staged", "published"] as const)("a delete of a volume that is %s", (step) => {
  const driver = judging();
  driver.ask("DeleteVolume", { volumeId: live(driver, step).volumeId });
  expect(arrivals(driver)).toEqual(["arrived-delete-in-use"]);
});

describe("one call for a volume, a name, a snapshot", () => {
  test("a create under a name that is being made", () => {
    const driver = judging();
    driver.open("CreateVolume", create);
    driver.ask("CreateVolume", create);
    expect(arrivals(driver)).toEqual(["arrived-beside-open-call"]);
  });

  test("a snapshot that is being cut is not deleted, nor cut again", () => {
    const driver = judging();
    const { volumeId: sourceVolumeId } = live(driver, "created");
    driver.open("CreateSnapshot", { name: "s", sourceVolumeId });
    driver.ask("CreateSnapshot", { name: "s", sourceVolumeId });
    driver.ask("DeleteSnapshot", { snapshotId: "s" });
    expect(arrivals(driver)).toEqual(["arrived-beside-open-call", "arrived-beside-open-call"]);
  });

  test("a delete whose work is done and whose answer is late", () => {
    const driver = judging();
    const { volumeId } = live(driver, "created");
    driver.backend.apply(driver.open("DeleteVolume", { volumeId }));
    driver.ask("DeleteVolume", { volumeId });
    expect(arrivals(driver)).toEqual(["arrived-beside-open-call"]);
  });

  test("a caller that gave up has ended nothing", () => {
    const driver = judging();
    driver.backend.abandon(driver.open("CreateVolume", create));
    expect(codeOf(driver.ask("CreateVolume", create))).toBe("ABORTED");
    expect(arrivals(driver)).toEqual(["arrived-beside-open-call"]);
  });

  test("a question is no call that counts", () => {
    const driver = judging();
    const { volumeId } = live(driver, "created");
    driver.open("ControllerGetVolume", { volumeId });
    driver.ask("ControllerPublishVolume", { volumeId, volumeCapability: writer, nodeId: "node-a" });
    expect(arrivals(driver)).toEqual([]);
  });

  test("nor are calls on nodes: their agent answers for them", () => {
    const driver = judging();
    const lived = live(driver, "attached");
    driver.backend.abandon(driver.open("NodeStageVolume", lived));
    driver.ask("NodeStageVolume", lived);
    expect(driver.backend.violations()).toEqual([]);
  });

  test("the death of the plugin's process ends what was open there", () => {
    const driver = judging();
    driver.open("CreateVolume", create);
    driver.backend.detach("controller");
    driver.backend.attach({ name: "controller", role: "controller" });
    driver.get("CreateVolume", create);
    expect(driver.backend.violations()).toEqual([]);
  });
});

describe("when the process that sent a call is dead", () => {
  const orphaned = (): { readonly driver: Driver; readonly lived: Lived } => {
    const driver = judging();
    const lived = live(driver, "attached");
    driver.backend.attach({ name: "other", role: "controller" });
    driver.open("ControllerUnpublishVolume", detach(lived));
    driver.backend.senderEnded("controller");
    return { driver, lived };
  };

  test("its successor repeats the same call as often as it likes, and is told that it is still running", () => {
    const { driver, lived } = orphaned();
    expect(codeOf(driver.ask("ControllerUnpublishVolume", detach(lived)))).toBe("ABORTED");
    expect(codeOf(driver.ask("ControllerUnpublishVolume", detach(lived)))).toBe("ABORTED");
    expect(driver.backend.violations()).toEqual([]);
  });

  test("another call of the volume may not come", () => {
    const { driver, lived } = orphaned();
    driver.ask("ControllerUnpublishVolume", { ...detach(lived), nodeId: "node-b" });
    driver.ask("ControllerPublishVolume", { ...lived, nodeId: "node-a" });
    expect(arrivals(driver)).toEqual(["arrived-beside-open-call", "arrived-beside-open-call"]);
  });

  test("nor the same call at another instance", () => {
    const { driver, lived } = orphaned();
    driver.ask("ControllerUnpublishVolume", detach(lived), { half: "other" });
    expect(arrivals(driver)).toEqual(["arrived-beside-open-call"]);
  });

  test("the successor's own call is open like any other", () => {
    const driver = judging();
    driver.open("CreateVolume", create);
    driver.backend.senderEnded("controller");
    driver.backend.close(driver.backend.inFlight()[0]?.seq ?? 0, { reply: "sent" });
    driver.open("CreateVolume", create);
    driver.ask("CreateVolume", create);
    expect(arrivals(driver)).toEqual(["arrived-beside-open-call"]);
  });
});
