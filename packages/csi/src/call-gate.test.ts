import type { Tri } from "@holdfast/model/tri";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gateOf, mayCall } from "./call-gate.ts";
import {
  allCaps,
  type Capability,
  controllerCaps,
  groupCaps,
  nodeCaps,
  type PluginFacts,
  type PluginRole,
  pluginCaps,
} from "./capabilities.ts";
import { codecOf, type RequestInput } from "./messages.ts";
import { type CsiMethod, methodNames, methods } from "./methods.ts";

const facts = (standing: Tri, role: PluginRole = "monolith"): PluginFacts => ({
  name: "p.example.com",
  version: "1",
  manifest: {},
  role,
  plugin: allCaps(pluginCaps, standing),
  controller: allCaps(controllerCaps, standing),
  node: allCaps(nodeCaps, standing),
  group: allCaps(groupCaps, standing),
});

const withOne = (base: PluginFacts, capability: Capability, standing: Tri): PluginFacts => {
  const [family = "", name = ""] = capability.split(":");
  return { ...base, [family]: { ...base[family as "node"], [name]: standing } };
};

/** Written by hand from the specification: what each RPC needs. */
const needed: Record<CsiMethod, Capability | undefined> = {
  Probe: undefined,
  GetPluginInfo: undefined,
  GetPluginCapabilities: undefined,
  CreateVolume: "controller:CREATE_DELETE_VOLUME",
  DeleteVolume: "controller:CREATE_DELETE_VOLUME",
  ControllerPublishVolume: "controller:PUBLISH_UNPUBLISH_VOLUME",
  ControllerUnpublishVolume: "controller:PUBLISH_UNPUBLISH_VOLUME",
  ValidateVolumeCapabilities: "plugin:CONTROLLER_SERVICE",
  ListVolumes: "controller:LIST_VOLUMES",
  GetCapacity: "controller:GET_CAPACITY",
  ControllerGetCapabilities: "plugin:CONTROLLER_SERVICE",
  CreateSnapshot: "controller:CREATE_DELETE_SNAPSHOT",
  DeleteSnapshot: "controller:CREATE_DELETE_SNAPSHOT",
  ListSnapshots: "controller:LIST_SNAPSHOTS",
  GetSnapshot: "controller:GET_SNAPSHOT",
  ControllerExpandVolume: "controller:EXPAND_VOLUME",
  ControllerGetVolume: "controller:GET_VOLUME",
  ControllerModifyVolume: "controller:MODIFY_VOLUME",
  GroupControllerGetCapabilities: "plugin:GROUP_CONTROLLER_SERVICE",
  CreateVolumeGroupSnapshot: "group:CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
  DeleteVolumeGroupSnapshot: "group:CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
  GetVolumeGroupSnapshot: "group:CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
  GetMetadataAllocated: "plugin:SNAPSHOT_METADATA_SERVICE",
  GetMetadataDelta: "plugin:SNAPSHOT_METADATA_SERVICE",
  NodeStageVolume: "node:STAGE_UNSTAGE_VOLUME",
  NodeUnstageVolume: "node:STAGE_UNSTAGE_VOLUME",
  NodePublishVolume: undefined,
  NodeUnpublishVolume: undefined,
  ControllerListVolumeHealth: "controller:LIST_VOLUME_HEALTH",
  ControllerGetVolumeHealth: "controller:GET_VOLUME_HEALTH",
  NodeGetVolumeHealth: "node:GET_VOLUME_HEALTH",
  NodeGetStorageHealth: "node:GET_STORAGE_HEALTH",
  NodeGetVolumeStats: "node:GET_VOLUME_STATS",
  NodeExpandVolume: "node:EXPAND_VOLUME",
  NodeGetCapabilities: undefined,
  NodeGetInfo: undefined,
};

const everyCapability: Capability[] = [
  ...pluginCaps.map((cap): Capability => `plugin:${cap}`),
  ...controllerCaps.map((cap): Capability => `controller:${cap}`),
  ...nodeCaps.map((cap): Capability => `node:${cap}`),
  ...groupCaps.map((cap): Capability => `group:${cap}`),
];

describe("the gate for a method", () => {
  it.each(methodNames)("%s needs exactly its own capability, whatever else is announced", (method) => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom<Tri>("yes", "no", "unknown"), {
          minLength: everyCapability.length,
          maxLength: everyCapability.length,
        }),
        (standings) => {
          const mask = everyCapability.reduce(
            (all, capability, index) => withOne(all, capability, standings[index] ?? "no"),
            facts("no"),
          );
          const capability = needed[method];
          const want = capability === undefined ? "yes" : standings[everyCapability.indexOf(capability)];
          expect(mayCall(mask, method)).toBe(want);
          const failure = gateOf(mask, method, undefined);
          if (want === "yes") expect(failure).toBeUndefined();
          else expect(failure).toMatchObject({ code: want === "no" ? "UNIMPLEMENTED" : "UNAVAILABLE", sent: false });
        },
      ),
      { numRuns: 100 },
    );
  });

  it("serves no Node call through a controller socket, and no other than Identity and Node through a node socket", () => {
    for (const method of methodNames) {
      const { service } = methods[method];
      const controller = mayCall(facts("yes", "controller"), method);
      const node = mayCall(facts("yes", "node"), method);
      expect(controller, method).toBe(service === "Node" ? "no" : "yes");
      expect(node, method).toBe(service === "Node" || service === "Identity" ? "yes" : "no");
      expect(mayCall(facts("yes"), method), method).toBe("yes");
    }
  });
});

describe("the gate for a field", () => {
  const fine = { mount: {}, accessMode: { mode: 6 as const } };
  const group = { mount: { volumeMountGroup: "1000" }, accessMode: { mode: 1 as const } };
  const cases: readonly [CsiMethod, string, Capability, RequestInput<CsiMethod>][] = [
    [
      "CreateVolume",
      "accessibility_requirements",
      "plugin:VOLUME_ACCESSIBILITY_CONSTRAINTS",
      { accessibilityRequirements: {} },
    ],
    ["CreateVolume", "mutable_parameters", "controller:MODIFY_VOLUME", { mutableParameters: { iops: "1" } }],
    [
      "CreateVolume",
      "volume_content_source.volume",
      "controller:CLONE_VOLUME",
      { volumeContentSource: { volume: {} } },
    ],
    [
      "CreateVolume",
      "volume_content_source.snapshot",
      "controller:CREATE_DELETE_SNAPSHOT",
      { volumeContentSource: { snapshot: {} } },
    ],
    ["CreateVolume", "access_mode", "controller:SINGLE_NODE_MULTI_WRITER", { volumeCapabilities: [fine] }],
    ["GetCapacity", "accessible_topology", "plugin:VOLUME_ACCESSIBILITY_CONSTRAINTS", { accessibleTopology: {} }],
    ["GetCapacity", "access_mode", "controller:SINGLE_NODE_MULTI_WRITER", { volumeCapabilities: [fine] }],
    ["ValidateVolumeCapabilities", "mutable_parameters", "controller:MODIFY_VOLUME", { mutableParameters: { a: "b" } }],
    ["ControllerPublishVolume", "readonly", "controller:PUBLISH_READONLY", { readonly: true }],
    ["ControllerPublishVolume", "access_mode", "controller:SINGLE_NODE_MULTI_WRITER", { volumeCapability: fine }],
    ["NodeStageVolume", "access_mode", "node:SINGLE_NODE_MULTI_WRITER", { volumeCapability: fine }],
    ["NodeStageVolume", "volume_mount_group", "node:VOLUME_MOUNT_GROUP", { volumeCapability: group }],
    ["NodePublishVolume", "volume_mount_group", "node:VOLUME_MOUNT_GROUP", { volumeCapability: group }],
    ["NodePublishVolume", "staging_target_path", "node:STAGE_UNSTAGE_VOLUME", { stagingTargetPath: "/s" }],
    [
      "CreateSnapshot",
      "accessibility_requirements",
      "plugin:SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
      { accessibilityRequirements: {} },
    ],
    ["NodeGetVolumeHealth", "staging_target_path", "node:STAGE_UNSTAGE_VOLUME", { stagingTargetPath: "/s" }],
    ["NodeGetVolumeStats", "staging_target_path", "node:STAGE_UNSTAGE_VOLUME", { stagingTargetPath: "/s" }],
    ["NodeExpandVolume", "staging_target_path", "node:STAGE_UNSTAGE_VOLUME", { stagingTargetPath: "/s" }],
  ];

  it.each(cases)("%s sends %s only to a plugin with %s", (method, field, capability, input) => {
    const request = codecOf(method).complete(input as never) as never;
    const all = facts("yes");
    expect(gateOf(all, method, request)).toBeUndefined();
    expect(gateOf(withOne(all, capability, "no"), method, request)).toMatchObject({
      code: "UNIMPLEMENTED",
      message: expect.stringContaining(field),
      sent: false,
    });
    expect(gateOf(withOne(all, capability, "unknown"), method, request)).toMatchObject({
      code: "UNAVAILABLE",
      sent: false,
    });
    const without = codecOf(method).complete({} as never) as never;
    expect(gateOf(withOne(all, capability, "no"), method, without)).toBeUndefined();
  });
});
