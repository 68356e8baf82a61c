import { describe, expect, test } from "vitest";
import type { BackendOptions } from "../backend.ts";
import { tokensKey } from "../call.ts";
import { csi113 } from "../capabilities.ts";
import type { CodeName } from "../codes.ts";
import { codeOf, createDriver, type Driver, inMode, live, writer } from "../test-driver.ts";
import { allRules } from "./police.ts";

/** For each rule a caller that breaks it; the last call it makes is the one refused. */
interface Breach {
  readonly rule: string;
  readonly code: CodeName;
  readonly options?: BackendOptions;
  readonly act: (driver: Driver) => ReturnType<Driver["ask"]>;
}

const long = (bytes: number): string => "x".repeat(bytes);
const without = (...names: NonNullable<NonNullable<BackendOptions["capabilities"]>["without"]>): BackendOptions => ({
  capabilities: { without: names },
});
const mounted = (flags: string[], group = "") => ({
  ...writer,
  mount: { fsType: "", mountFlags: flags, volumeMountGroup: group },
});
const inZone = (zone: string) => ({
  accessibilityRequirements: { requisite: [{ segments: { zone } }], preferred: [] },
});
const create = { name: "one", volumeCapabilities: [writer] };

const breaches: readonly Breach[] = [
  {
    rule: "capability-absent",
    code: "UNIMPLEMENTED",
    options: without("controller.GET_CAPACITY"),
    act: (d) => d.ask("GetCapacity", {}),
  },
  {
    rule: "readonly-without-capability",
    code: "INVALID_ARGUMENT",
    options: without("controller.PUBLISH_READONLY"),
    act: (d) => d.ask("ControllerPublishVolume", { ...live(d, "created"), nodeId: "node-a", readonly: true }),
  },
  {
    rule: "mutable-parameters-without-capability",
    code: "INVALID_ARGUMENT",
    options: without("controller.MODIFY_VOLUME"),
    act: (d) => d.ask("CreateVolume", { ...create, mutableParameters: { tier: "fast" } }),
  },
  {
    rule: "content-source-without-capability",
    code: "INVALID_ARGUMENT",
    options: without("controller.CLONE_VOLUME"),
    act: (d) => {
      const { volumeId } = live(d, "created");
      const volumeContentSource = { volume: { volumeId }, snapshot: undefined };
      return d.ask("CreateVolume", { ...create, name: "two", volumeContentSource });
    },
  },
  {
    rule: "snapshot-topology-without-capability",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("CreateSnapshot", { name: "s", sourceVolumeId: live(d, "created").volumeId, ...inZone("a") }),
  },
  {
    rule: "snapshot-used-elsewhere",
    code: "RESOURCE_EXHAUSTED",
    options: { capabilities: csi113 },
    act: (d) => {
      const sourceVolumeId = live(d, "created").volumeId;
      const { snapshot } = d.get("CreateSnapshot", { name: "s", sourceVolumeId, ...inZone("a") });
      const volumeContentSource = { snapshot: { snapshotId: snapshot?.snapshotId ?? "" } };
      d.get("CreateVolume", { ...create, name: "here", volumeContentSource, ...inZone("a") });
      return d.ask("CreateVolume", { ...create, name: "there", volumeContentSource, ...inZone("b") });
    },
  },
  {
    rule: "health-path-relative",
    code: "INVALID_ARGUMENT",
    options: { capabilities: csi113 },
    act: (d) => d.ask("NodeGetVolumeHealth", { volumeId: live(d, "staged").volumeId, stagingTargetPath: "staging" }),
  },
  {
    rule: "topology-without-capability",
    code: "INVALID_ARGUMENT",
    options: without("plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS"),
    act: (d) =>
      d.ask("CreateVolume", {
        ...create,
        accessibilityRequirements: { requisite: [{ segments: { zone: "a" } }], preferred: [] },
      }),
  },
  {
    rule: "publish-context-without-capability",
    code: "INVALID_ARGUMENT",
    options: without("controller.PUBLISH_UNPUBLISH_VOLUME"),
    act: (d) => d.ask("NodeStageVolume", { ...live(d, "created"), publishContext: { device: "sda" } }),
  },
  {
    rule: "staging-path-without-capability",
    code: "INVALID_ARGUMENT",
    options: without("node.STAGE_UNSTAGE_VOLUME"),
    act: (d) => d.ask("NodePublishVolume", live(d, "attached")),
  },
  {
    rule: "access-mode-without-capability",
    code: "INVALID_ARGUMENT",
    options: without("controller.SINGLE_NODE_MULTI_WRITER"),
    act: (d) => d.ask("CreateVolume", { name: "one", volumeCapabilities: [inMode("SINGLE_NODE_SINGLE_WRITER")] }),
  },
  {
    rule: "mount-group-without-capability",
    code: "INVALID_ARGUMENT",
    options: without("node.VOLUME_MOUNT_GROUP"),
    act: (d) => d.ask("NodeStageVolume", live(d, "attached", mounted([], "1000"))),
  },
  { rule: "field-missing", code: "INVALID_ARGUMENT", act: (d) => d.ask("DeleteVolume", {}) },
  {
    rule: "capability-incomplete",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("CreateVolume", { name: "one", volumeCapabilities: [inMode("UNKNOWN")] }),
  },
  {
    rule: "capacity-range-invalid",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("CreateVolume", { ...create, capacityRange: { requiredBytes: 2n, limitBytes: 1n } }),
  },
  {
    rule: "secret-key-invalid",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("CreateVolume", { ...create, secrets: { "pass word": "x" } }),
  },
  {
    rule: "name-invalid",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("CreateVolume", { ...create, name: "bell\u0007" }),
  },
  {
    rule: "node-id-empty",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("ControllerUnpublishVolume", { volumeId: live(d, "attached").volumeId }),
  },
  {
    rule: "content-source-incomplete",
    code: "INVALID_ARGUMENT",
    act: (d) =>
      d.ask("CreateVolume", { ...create, volumeContentSource: { snapshot: { snapshotId: "" }, volume: undefined } }),
  },
  {
    rule: "topology-requirement-invalid",
    code: "INVALID_ARGUMENT",
    act: (d) =>
      d.ask("CreateVolume", {
        ...create,
        accessibilityRequirements: {
          requisite: [{ segments: { zone: "a" } }],
          preferred: [{ segments: { zone: "b" } }],
        },
      }),
  },
  { rule: "paging-invalid", code: "INVALID_ARGUMENT", act: (d) => d.ask("ListVolumes", { maxEntries: -1 }) },
  {
    rule: "string-oversize",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("CreateVolume", { ...create, name: long(129) }),
  },
  {
    rule: "map-oversize",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("CreateVolume", { ...create, parameters: { one: long(4094) } }),
  },
  {
    rule: "mount-flags-oversize",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("CreateVolume", { name: "one", volumeCapabilities: [mounted([long(4000), long(97)])] }),
  },
  {
    rule: "node-id-oversize",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("ControllerPublishVolume", { ...live(d, "created"), nodeId: long(257) }),
  },
  {
    rule: "path-oversize",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("NodeStageVolume", { ...live(d, "attached"), stagingTargetPath: `/${long(128)}` }),
  },
  {
    rule: "path-relative",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("NodeStageVolume", { ...live(d, "attached"), stagingTargetPath: "staging/one" }),
  },
  {
    rule: "call-before-ready",
    code: "UNAVAILABLE",
    options: { faults: [{ method: "Probe", neverReady: true }] },
    act: (d) => d.ask("CreateVolume", create),
  },
  {
    rule: "unimplemented-repeated",
    code: "UNIMPLEMENTED",
    options: { faults: [{ method: "CreateVolume", code: "UNIMPLEMENTED" }] },
    act: (d) => {
      const ticket = d.open("CreateVolume", create);
      d.backend.close(ticket, { reply: "sent", refusal: { code: "UNIMPLEMENTED", message: "" } });
      return d.ask("CreateVolume", create);
    },
  },
  {
    rule: "second-call-in-flight",
    code: "ABORTED",
    act: (d) => {
      const lived = live(d, "created");
      d.open("ControllerPublishVolume", { ...lived, nodeId: "node-a" });
      return d.ask("ControllerExpandVolume", {
        volumeId: lived.volumeId,
        capacityRange: { requiredBytes: 1n, limitBytes: 0n },
      });
    },
  },
  {
    rule: "secrets-missing",
    code: "UNAUTHENTICATED",
    options: { secrets: { DeleteVolume: { token: "t" } } },
    act: (d) => d.ask("DeleteVolume", { volumeId: live(d, "created").volumeId }),
  },
  {
    rule: "node-unknown",
    code: "NOT_FOUND",
    act: (d) => d.ask("ControllerPublishVolume", { ...live(d, "created"), nodeId: "node-z" }),
  },
  {
    rule: "create-replay-differs",
    code: "ALREADY_EXISTS",
    act: (d) => {
      live(d, "created");
      return d.ask("CreateVolume", { ...create, parameters: { tier: "other" } });
    },
  },
  {
    rule: "snapshot-replay-differs",
    code: "ALREADY_EXISTS",
    act: (d) => {
      d.get("CreateSnapshot", { name: "s", sourceVolumeId: live(d, "created").volumeId });
      return d.ask("CreateSnapshot", { name: "s", sourceVolumeId: live(d, "created", writer, "two").volumeId });
    },
  },
  {
    rule: "group-replay-differs",
    code: "ALREADY_EXISTS",
    act: (d) => {
      d.get("CreateVolumeGroupSnapshot", { name: "g", sourceVolumeIds: [live(d, "created").volumeId] });
      return d.ask("CreateVolumeGroupSnapshot", {
        name: "g",
        sourceVolumeIds: [live(d, "created", writer, "two").volumeId],
      });
    },
  },
  {
    rule: "group-members-differ",
    code: "INVALID_ARGUMENT",
    act: (d) => {
      const { groupSnapshot } = d.get("CreateVolumeGroupSnapshot", {
        name: "g",
        sourceVolumeIds: [live(d, "created").volumeId],
      });
      return d.ask("DeleteVolumeGroupSnapshot", {
        groupSnapshotId: groupSnapshot?.groupSnapshotId ?? "",
        snapshotIds: ["other"],
      });
    },
  },
  {
    rule: "group-member-deleted-alone",
    code: "INVALID_ARGUMENT",
    act: (d) => {
      const { groupSnapshot } = d.get("CreateVolumeGroupSnapshot", {
        name: "g",
        sourceVolumeIds: [live(d, "created").volumeId],
      });
      return d.ask("DeleteSnapshot", { snapshotId: groupSnapshot?.snapshots[0]?.snapshotId ?? "" });
    },
  },
  {
    rule: "volume-context-changed",
    code: "INVALID_ARGUMENT",
    act: (d) =>
      d.ask("ControllerPublishVolume", { ...live(d, "created"), nodeId: "node-a", volumeContext: { more: "keys" } }),
  },
  {
    rule: "capability-beyond-volume",
    code: "FAILED_PRECONDITION",
    act: (d) =>
      d.ask("ControllerPublishVolume", {
        ...live(d, "created"),
        nodeId: "node-a",
        volumeCapability: inMode("MULTI_NODE_MULTI_WRITER"),
      }),
  },
  {
    rule: "capability-beyond-volume",
    code: "FAILED_PRECONDITION",
    options: { comparesCapabilities: true },
    act: (d) =>
      d.ask("ControllerPublishVolume", {
        ...live(d, "created", mounted([], "1000")),
        nodeId: "node-a",
        volumeCapability: mounted([]),
      }),
  },
  {
    rule: "delete-while-in-use",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("DeleteVolume", { volumeId: live(d, "attached").volumeId }),
  },
  {
    rule: "detach-while-in-use",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("ControllerUnpublishVolume", { volumeId: live(d, "staged").volumeId, nodeId: "node-a" }),
  },
  {
    rule: "attach-replay-differs",
    code: "ALREADY_EXISTS",
    act: (d) => d.ask("ControllerPublishVolume", { ...live(d, "attached"), nodeId: "node-a", readonly: true }),
  },
  {
    rule: "attach-second-node",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("ControllerPublishVolume", { ...live(d, "attached"), nodeId: "node-b" }),
  },
  {
    rule: "attach-second-writer",
    code: "FAILED_PRECONDITION",
    act: (d) =>
      d.ask("ControllerPublishVolume", {
        ...live(d, "attached", inMode("MULTI_NODE_SINGLE_WRITER")),
        nodeId: "node-b",
      }),
  },
  {
    rule: "attach-beyond-limit",
    code: "RESOURCE_EXHAUSTED",
    options: { nodes: { "node-a": { maxVolumes: 1 } } },
    act: (d) => {
      live(d, "attached");
      return d.ask("ControllerPublishVolume", { ...live(d, "created", writer, "two"), nodeId: "node-a" });
    },
  },
  {
    rule: "attach-outside-topology",
    code: "FAILED_PRECONDITION",
    options: { nodes: { "node-a": { topology: { zone: "a" } }, "node-b": { topology: { zone: "b" } } } },
    act: (d) => d.ask("ControllerPublishVolume", { ...live(d, "created"), nodeId: "node-b" }),
  },
  {
    rule: "detach-secrets-differ",
    code: "UNAUTHENTICATED",
    act: (d) => {
      const { volumeId } = live(d, "attached");
      return d.ask("ControllerUnpublishVolume", { volumeId, nodeId: "node-a", secrets: { token: "other" } });
    },
  },
  {
    rule: "expand-while-in-use",
    code: "FAILED_PRECONDITION",
    options: { capabilities: { with: ["plugin.EXPANSION_OFFLINE"], without: ["plugin.EXPANSION_ONLINE"] } },
    act: (d) =>
      d.ask("ControllerExpandVolume", {
        volumeId: live(d, "attached").volumeId,
        capacityRange: { requiredBytes: 2n ** 31n, limitBytes: 0n },
      }),
  },
  {
    rule: "stage-before-attach",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("NodeStageVolume", live(d, "created")),
  },
  {
    rule: "publish-before-attach",
    code: "FAILED_PRECONDITION",
    options: without("node.STAGE_UNSTAGE_VOLUME"),
    act: (d) => d.ask("NodePublishVolume", { ...live(d, "created"), stagingTargetPath: "" }),
  },
  {
    rule: "staging-path-missing",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("NodePublishVolume", { ...live(d, "staged"), stagingTargetPath: "" }),
  },
  {
    rule: "publish-before-stage",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("NodePublishVolume", live(d, "attached")),
  },
  {
    rule: "staging-path-differs",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("NodePublishVolume", { ...live(d, "staged"), stagingTargetPath: "/staging/other" }),
  },
  {
    rule: "second-staging-path",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("NodeStageVolume", { ...live(d, "staged"), stagingTargetPath: "/staging/other" }),
  },
  {
    rule: "publish-context-changed",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("NodeStageVolume", { ...live(d, "attached"), publishContext: { device: "sda" } }),
  },
  {
    rule: "capability-changed",
    code: "INVALID_ARGUMENT",
    act: (d) => d.ask("NodeStageVolume", { ...live(d, "attached"), volumeCapability: mounted(["noatime"]) }),
  },
  {
    rule: "stage-replay-differs",
    code: "ALREADY_EXISTS",
    options: without("controller.PUBLISH_UNPUBLISH_VOLUME"),
    act: (d) => {
      const { volumeId, volumeContext, volumeCapability, stagingTargetPath } = live(d, "created");
      d.get("NodeStageVolume", { volumeId, volumeContext, volumeCapability, stagingTargetPath });
      return d.ask("NodeStageVolume", {
        volumeId,
        volumeContext,
        volumeCapability: mounted(["noatime"]),
        stagingTargetPath,
      });
    },
  },
  {
    rule: "publish-replay-differs",
    code: "ALREADY_EXISTS",
    act: (d) => d.ask("NodePublishVolume", { ...live(d, "published"), readonly: true }),
  },
  {
    rule: "publish-second-target",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("NodePublishVolume", { ...live(d, "published"), targetPath: "/target/two" }),
  },
  {
    rule: "publish-second-writer",
    code: "FAILED_PRECONDITION",
    options: without("controller.PUBLISH_UNPUBLISH_VOLUME"),
    act: (d) => {
      const mode = inMode("MULTI_NODE_SINGLE_WRITER");
      const { volumeId, volumeContext, stagingTargetPath, targetPath } = live(d, "created", mode);
      const base = { volumeId, volumeContext, volumeCapability: mode, stagingTargetPath };
      for (const node of ["node-a", "node-b"] as const) d.get("NodeStageVolume", base, { node });
      d.get("NodePublishVolume", { ...base, targetPath }, { node: "node-a" });
      d.get("NodePublishVolume", { ...base, targetPath: "/target/reader", readonly: true }, { node: "node-b" });
      return d.ask("NodePublishVolume", { ...base, targetPath }, { node: "node-b" });
    },
  },
  {
    rule: "unstage-while-published",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("NodeUnstageVolume", live(d, "published")),
  },
  {
    rule: "node-expand-not-here",
    code: "NOT_FOUND",
    act: (d) => d.ask("NodeExpandVolume", { volumeId: live(d, "staged").volumeId, volumePath: "/elsewhere" }),
  },
  {
    rule: "stats-not-here",
    code: "NOT_FOUND",
    act: (d) => d.ask("NodeGetVolumeStats", { volumeId: live(d, "staged").volumeId, volumePath: "some/path" }),
  },
  {
    rule: "staging-directory-missing",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("NodeStageVolume", live(d, "attached"), { paths: { stagingPath: "missing" } }),
  },
  {
    rule: "target-parent-missing",
    code: "FAILED_PRECONDITION",
    act: (d) => d.ask("NodePublishVolume", live(d, "staged"), { paths: { targetParent: "other" } }),
  },
  {
    rule: "token-refused",
    code: "UNAUTHENTICATED",
    act: (d) => d.ask("NodePublishVolume", live(d, "staged"), { token: { wrong: "there is none", old: false } }),
  },
  {
    rule: "token-in-context",
    code: "INVALID_ARGUMENT",
    act: (d) => {
      const request = live(d, "staged");
      const volumeContext = { ...request.volumeContext, [tokensKey]: "{}" };
      return d.ask("NodePublishVolume", { ...request, volumeContext }, { token: { claims: {}, old: false } });
    },
  },
];

describe("each rule", () => {
  test.each(breaches)("$rule is refused with $code and recorded", ({ rule, code, options, act }) => {
    const driver = createDriver(options);
    const answer = act(driver);
    expect(codeOf(answer)).toBe(code);
    const violations = driver.backend.violations();
    expect(violations.map((violation) => violation.rule)).toContain(rule);
    const spec = allRules.find((row) => row.id === rule)?.spec;
    expect(violations.find((violation) => violation.rule === rule)?.spec).toBe(spec);
    expect(driver.backend.record().at(-1)).toMatchObject({
      code,
      done: false,
      violations: expect.arrayContaining([rule]),
    });
    // Nothing before the breach was out of order: the violations are those of the last call alone.
    expect(new Set(violations.map((violation) => violation.seq)).size).toBe(1);
  });

  test("attach-beyond-limit counts a volume once that is attached and asked for again", () => {
    const driver = createDriver({ nodes: { "node-a": { maxVolumes: 2 } } });
    const attached = live(driver, "attached");
    driver.open("ControllerPublishVolume", { ...attached, nodeId: "node-a" });
    driver.get("ControllerPublishVolume", { ...live(driver, "created", writer, "two"), nodeId: "node-a" });
    expect(driver.backend.violations()).toEqual([]);
  });

  test("that blames the caller has a breach here", () => {
    const blaming = allRules.filter((row) => row.blame === "caller").map((row) => row.id);
    expect([...new Set(breaches.map((breach) => breach.rule))].toSorted()).toEqual(blaming.toSorted());
  });

  test("has an id of its own and a sentence", () => {
    expect(new Set(allRules.map((row) => row.id)).size).toBe(allRules.length);
    for (const row of allRules) expect(row.spec).toMatch(/\w+ .+\.$/);
  });
});
