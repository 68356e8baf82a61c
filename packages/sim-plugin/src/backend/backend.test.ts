import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Answer } from "./answer.ts";
import { type BackendSnapshot, createBackend } from "./backend.ts";
import type { SecretsSeen } from "./call-record.ts";
import { decode, encode } from "./json.ts";
import { attachmentOf, type SimState, stageOf } from "./model.ts";
import { codeOf, createDriver, type Driver, inMode, live, writer } from "./test-driver.ts";

/** Whatever its callers do, the storage never holds a use without the use below it. */
const expectSound = (state: SimState): void => {
  for (const publication of [...state.publications.values()].flat())
    expect(stageOf(state, publication.volume, publication.node)).toBeDefined();
  for (const stage of [...state.stages.values()].flat())
    expect(attachmentOf(state, stage.volume, stage.node)).toBeDefined();
  for (const attachment of [...state.attachments.values()].flat())
    expect(state.volumes.has(attachment.volume)).toBe(true);
};

type Move = { readonly act: string; readonly volume: string; readonly node: "node-a" | "node-b" };

const make = (driver: Driver, { act, volume: name, node }: Move): Answer => {
  const volume = driver.backend
    .state()
    .volumes.values()
    .find((one) => one.name === name);
  const volumeId = volume?.id ?? "none";
  const volumeCapability = volume?.capabilities[0] ?? writer;
  const publishContext = { ...attachmentOf(driver.backend.state(), volumeId, node)?.publishContext };
  const paths = { stagingTargetPath: `/staging/${name}`, targetPath: `/target/${name}` };
  const base = { volumeId, volumeContext: { ...volume?.context }, volumeCapability, publishContext, ...paths };
  switch (act) {
    case "create":
      return driver.ask("CreateVolume", {
        name,
        volumeCapabilities: [name === "shared" ? inMode("MULTI_NODE_MULTI_WRITER") : writer],
      });
    case "attach":
      return driver.ask("ControllerPublishVolume", { ...base, nodeId: node });
    case "stage":
      return driver.ask("NodeStageVolume", base, { node });
    case "publish":
      return driver.ask("NodePublishVolume", base, { node });
    case "unpublish":
      return driver.ask("NodeUnpublishVolume", base, { node });
    case "unstage":
      return driver.ask("NodeUnstageVolume", base, { node });
    case "detach":
      return driver.ask("ControllerUnpublishVolume", { volumeId, nodeId: node });
    default:
      return driver.ask("DeleteVolume", { volumeId });
  }
};

const moves = fc.array(
  fc.record({
    act: fc.constantFrom("create", "attach", "stage", "publish", "unpublish", "unstage", "detach", "delete"),
    volume: fc.constantFrom("one", "shared"),
    node: fc.constantFrom<"node-a" | "node-b">("node-a", "node-b"),
  }),
  { maxLength: 60 },
);

describe("under any order of calls", () => {
  test("the storage stays sound, and a single-node volume is on one node", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        const driver = createDriver();
        for (const move of sequence) {
          make(driver, move);
          expectSound(driver.backend.state());
          for (const uses of driver.backend.state().attachments.values())
            if (uses.some((use) => use.capability.accessMode?.mode === 1)) expect(uses).toHaveLength(1);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("every refusal that breaks an order is a violation, and every violation is a refusal", () => {
    fc.assert(
      fc.property(moves, (sequence) => {
        const driver = createDriver();
        for (const move of sequence) {
          const before = driver.backend.violations().length;
          const answer = make(driver, move);
          const blamed = driver.backend.violations().length > before;
          if (blamed) expect(answer).toHaveProperty("refusal");
          if ("refusal" in answer && answer.refusal.code === "FAILED_PRECONDITION") expect(blamed).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe("the record", () => {
  test("numbers beginnings and ends by one counter, across instances", () => {
    const driver = createDriver();
    const first = driver.open("CreateVolume", { name: "one", volumeCapabilities: [writer] });
    const second = driver.open("NodeGetInfo", {}, { node: "node-b" });
    driver.backend.apply(first);
    driver.backend.close(second, { reply: "sent" });
    driver.backend.close(first, { reply: "sent" });
    expect(driver.backend.record().map(({ seq, endSeq, instance }) => [seq, endSeq, instance])).toEqual([
      [1, 4, "controller"],
      [2, 3, "node-b"],
    ]);
  });

  test("holds no secret, but that it came and whether it was the same", () => {
    const driver = createDriver();
    const secrets = { token: "canary-7f3a", user: "root" };
    live(driver, "created");
    for (const given of [secrets, { ...secrets }, { ...secrets, token: "other" }])
      driver.ask("CreateVolume", { name: "one", volumeCapabilities: [writer], secrets: given });
    expect(JSON.stringify(driver.backend.record())).not.toContain("canary-7f3a");
    const [, first, same, other] = driver.backend
      .record()
      .map((line) => (line.request as { secrets: SecretsSeen }).secrets);
    expect(first?.keys).toEqual(["token", "user"]);
    expect(same).toEqual(first);
    expect(other?.hash).not.toBe(first?.hash);
  });

  test("is forgotten by clear, and the state is not", () => {
    const driver = createDriver();
    driver.ask("DeleteVolume", {});
    live(driver, "attached");
    driver.backend.clear();
    expect([driver.backend.record(), driver.backend.violations()]).toEqual([[], []]);
    expect(driver.backend.state().volumes.size).toBe(1);
  });
});

describe("what happens without a call", () => {
  test("a reboot takes a node's mounts and leaves its attachments and the other nodes", () => {
    const driver = createDriver();
    const lived = live(driver, "published", inMode("MULTI_NODE_MULTI_WRITER"));
    const { publishContext } = driver.get("ControllerPublishVolume", { ...lived, nodeId: "node-b" });
    driver.get("NodeStageVolume", { ...lived, publishContext }, { node: "node-b" });
    driver.backend.reboot("node-a");
    const state = driver.backend.state();
    expect(state.stages.get(lived.volumeId)?.map((one) => one.node)).toEqual(["node-b"]);
    expect(state.publications.size).toBe(0);
    expect(state.attachments.get(lived.volumeId)).toHaveLength(2);
  });

  test("a volume made elsewhere serves any capability", () => {
    const driver = createDriver();
    driver.backend.addVolume({ id: "foreign" });
    driver.get("ControllerPublishVolume", {
      volumeId: "foreign",
      nodeId: "node-a",
      volumeCapability: inMode("SINGLE_NODE_READER_ONLY"),
    });
    expect(driver.backend.violations()).toEqual([]);
  });

  test("the mask, changed while running, changes what is answered and what is refused", () => {
    const driver = createDriver();
    driver.backend.setCapabilities({ without: ["plugin.CONTROLLER_SERVICE"] });
    const answer = driver.ask("ControllerGetCapabilities", {});
    expect(codeOf(answer)).toBe("UNIMPLEMENTED");
    const { capabilities } = driver.get("GetPluginCapabilities", {});
    expect(capabilities.map((one) => one.service?.type)).not.toContain(1);
  });
});

describe("a snapshot of the backend", () => {
  test("comes back from its text as it was, and goes on counting", () => {
    let kept = "";
    const first = createBackend({ onChange: (snapshot) => (kept = encode(snapshot)) });
    first.attach({ name: "controller", role: "controller" });
    first.addVolume({ id: "one", capacity: 2n ** 60n });
    const restored = decode(kept) as BackendSnapshot;
    const second = createBackend({ restored });
    expect(second.state()).toEqual(first.state());
  });
});
