/**
 * No field of a volume's policy or of a plugin's profile is accepted and ignored. Total over the messages: a field that is added fails here
 * before somebody says where the product reads it, and with which value it is refused, if any value of it is not served.
 */
import path from "node:path";
import { createChecks } from "@holdfast/controller/api/check-request";
import { profileFrom, profileMessage } from "@holdfast/controller/api/plugin/convert-plugin";
import { policyFrom } from "@holdfast/controller/api/volume/convert-volume-request";
import { validateUpdateVolume } from "@holdfast/controller/commands/volume/validate-volume";
import { checkProfile, settledProfile } from "@holdfast/controller/domain/plugin/plugin-profile";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { PluginProfile } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { VolumePolicy } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect, test } from "vitest";
import { readText } from "./support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "..");

type Row<Message> = {
  /** A value that is not served, and the field that the refusal names; absent: every value is served. */
  readonly refused?: readonly [Message, string];
} & (
  | {
      /** The file whose behaviour it changes, and the word by which it reads it. */
      readonly servedIn: readonly [file: string, word: string];
      /** A value that is served, and not the default. */
      readonly served: Message;
    }
  /** No value is served but the default. */
  | { readonly served?: undefined; readonly refused: readonly [Message, string] }
);

const controller = (file: string, word: string) => [`services/controller/src/${file}`, word] as const;
const tokens = (count: number, seconds: bigint) =>
  Array.from({ length: count }, (_, i) => ({
    audience: `a${i}`,
    ttl: { seconds, nanos: 0 },
    expiration: { seconds, nanos: 0 },
  }));

type PolicyRow = Row<Parameters<typeof VolumePolicy.fromPartial>[0]>;
const policy: Readonly<Record<keyof VolumePolicy, PolicyRow>> = {
  reclaim: {
    servedIn: controller("domain/volume/volume-change.ts", "policy.reclaim"),
    served: { reclaim: 1 },
    refused: [{ reclaim: 99 as never }, "policy.reclaim"],
  },
  nodeLoss: {
    servedIn: controller("reconcile/node/fencer-keeper.ts", "nodeLoss"),
    served: { nodeLoss: 2 },
    refused: [{ nodeLoss: 99 as never }, "policy.node_loss"],
  },
  identityTokens: {
    servedIn: controller("domain/plugin/publishing.ts", "policy.identityTokens"),
    served: { identityTokens: tokens(4, 600n) },
    refused: [{ identityTokens: tokens(5, 600n) }, "policy.identity_tokens"],
  },
  requiresRepublish: {
    servedIn: controller("domain/plugin/publishing.ts", "policy.requiresRepublish"),
    served: { requiresRepublish: true },
  },
};

type ProfileRow = Row<Parameters<typeof PluginProfile.fromPartial>[0]>;
const profile: Readonly<Record<keyof PluginProfile, ProfileRow>> = {
  maxConcurrentCalls: {
    servedIn: controller("reconcile/plugin/plugin-governor.ts", "maxConcurrentCalls"),
    served: { maxConcurrentCalls: 7 },
    refused: [{ maxConcurrentCalls: 5_000 }, "profile.max_concurrent_calls"],
  },
  maxConcurrentAttachesPerNode: {
    servedIn: controller("reconcile/plugin/plugin-governor.ts", "maxConcurrentAttachesPerNode"),
    served: { maxConcurrentAttachesPerNode: 7 },
    refused: [{ maxConcurrentAttachesPerNode: 5_000 }, "profile.max_concurrent_attaches_per_node"],
  },
  maxVolumesPerNode: {
    servedIn: controller("domain/plugin/attach-profile.ts", "profile.maxVolumesPerNode"),
    served: { maxVolumesPerNode: 7n },
    refused: [{ maxVolumesPerNode: -1n }, "profile.max_volumes_per_node"],
  },
  fence: {
    servedIn: controller("commands/node/fence-node.ts", ".fence"),
    served: { fence: 1 },
    refused: [{ fence: 99 as never }, "profile.fence"],
  },
  allowedFsTypes: { refused: [{ allowedFsTypes: ["xfs"] }, "profile.allowed_fs_types"] },
  allowedMountFlags: { refused: [{ allowedMountFlags: ["noatime"] }, "profile.allowed_mount_flags"] },
  allowPathLikeIds: { refused: [{ allowPathLikeIds: true }, "profile.allow_path_like_ids"] },
  controllerPlacement: {
    servedIn: controller("plugin-wiring.ts", "controllerPlacement"),
    served: { controllerPlacement: 1 },
    refused: [{ controllerPlacement: 99 as never }, "profile.controller_placement"],
  },
  assumedExpansion: {
    servedIn: controller("plugins/controller-plugins.ts", "assumedExpansion"),
    served: { assumedExpansion: 1 },
    refused: [{ assumedExpansion: 99 as never }, "profile.assumed_expansion"],
  },
  codeReadings: {
    servedIn: controller("domain/plugin/plugin-profile.ts", "readCode"),
    served: { codeReadings: [{ csiMethod: "CreateVolume", code: "INTERNAL", readAs: "UNAVAILABLE" }] },
    refused: [
      { codeReadings: [{ csiMethod: "CreateVolume", code: "INTERNAL", readAs: "OK" }] },
      "profile.code_readings[0].read_as",
    ],
  },
  exclusiveMethods: {
    servedIn: controller("reconcile/plugin/plugin-governor.ts", "exclusiveMethods"),
    served: { exclusiveMethods: ["CreateSnapshot"] },
    refused: [{ exclusiveMethods: ["NodeStageVolume"] }, "profile.exclusive_methods[0]"],
  },
  reach: {
    servedIn: controller("domain/plugin/instance-reach.ts", "reach"),
    served: { reach: 1 },
    refused: [{ reach: 99 as never }, "profile.reach"],
  },
  ignoreCondition: {
    servedIn: controller("figures/condition-monitor.ts", "ignoreCondition"),
    served: { ignoreCondition: true },
  },
  nodeClasses: {
    servedIn: controller("domain/plugin/attach-profile.ts", "nodeClasses.find"),
    served: { nodeClasses: [{ nodes: "gpu-*", maxVolumes: 1n }] },
    refused: [{ nodeClasses: [{ maxVolumes: 1n }] }, "profile.node_classes[0]"],
  },
  attachPool: {
    servedIn: controller("records/attachment/attach-limits.ts", "attachPool"),
    served: { attachPool: "ebs", attachPoolLimit: 7n },
    refused: [{ attachPool: "ebs" }, "profile.attach_pool_limit"],
  },
  attachPoolLimit: {
    servedIn: controller("domain/plugin/attach-profile.ts", "profile.attachPoolLimit"),
    served: { attachPool: "ebs", attachPoolLimit: 7n },
    refused: [{ attachPoolLimit: 7n }, "profile.attach_pool_limit"],
  },
  nodeHealthSecret: {
    servedIn: controller("nodes/health-secrets.ts", "nodeHealthSecret"),
    served: { nodeHealthSecret: { namespace: "ns", secret: { ref: "secret:health" } } },
    refused: [{ nodeHealthSecret: { namespace: "" } }, "profile.node_health_secret.namespace"],
  },
  tokenRequests: {
    servedIn: controller("domain/plugin/publishing.ts", "profile.tokenRequests"),
    served: { tokenRequests: tokens(4, 3_600n) },
    refused: [{ tokenRequests: tokens(1, 599n) }, "profile.token_requests[0].expiration"],
  },
  requiresRepublish: {
    servedIn: controller("domain/plugin/publishing.ts", "profile.requiresRepublish"),
    served: { requiresRepublish: true },
  },
  republishInterval: {
    servedIn: controller("domain/plugin/publishing.ts", "profile.republishIntervalMs"),
    served: { republishInterval: { seconds: 90n, nanos: 0 } },
    refused: [{ republishInterval: { seconds: 0n, nanos: 5_000_000 } }, "profile.republish_interval"],
  },
  tokensInVolumeContext: {
    servedIn: controller("domain/plugin/publishing.ts", "profile.tokensInVolumeContext"),
    served: { tokensInVolumeContext: true },
  },
};

const policyViolations = (wire: unknown): readonly string[] => {
  const checks = createChecks();
  const asked = policyFrom(VolumePolicy.fromPartial(wire as object), false, checks);
  try {
    validateUpdateVolume({ namespace: "ns", id: "data", expectedRevision: 0, update: { policy: asked } }, () => true);
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    return [...checks.violations, ...error.violations].map(({ field }) => field);
  }
  return checks.violations.map(({ field }) => field);
};

const profileViolations = (wire: unknown): readonly string[] => {
  const checks = createChecks();
  const asked = profileFrom(PluginProfile.fromPartial(wire as object), checks);
  return [...checks.violations, ...checkProfile(asked)].map(({ field }) => field);
};

const all = [
  ...Object.entries(policy).map(([field, row]) => ({ field: `policy ${field}`, row, judge: policyViolations })),
  ...Object.entries(profile).map(([field, row]) => ({ field: `profile ${field}`, row, judge: profileViolations })),
];

test("every field of both messages has a row", () => {
  expect(Object.keys(policy).toSorted()).toEqual(Object.keys(VolumePolicy.fromPartial({})).toSorted());
  expect(Object.keys(profile).toSorted()).toEqual(Object.keys(PluginProfile.fromPartial({})).toSorted());
});

test.each(all)("$field is served, and what of it is not is refused", ({ row, judge }) => {
  if (row.served !== undefined) {
    const [file, word] = row.servedIn;
    expect(readText(root, file)).toContain(word);
    expect(judge(row.served)).toEqual([]);
  }
  if (row.refused !== undefined) expect(judge(row.refused[0])).toContain(row.refused[1]);
});

const served = Object.entries(profile).flatMap(([field, row]) =>
  row.served === undefined ? [] : [[field, row.served] as const],
);

test.each(served)("profile %s comes back as it was set", (field, value) => {
  const checks = createChecks();
  const kept = profileMessage(settledProfile(profileFrom(PluginProfile.fromPartial(value), checks)));
  expect(PluginProfile.fromPartial(kept)[field as keyof PluginProfile]).toEqual(
    PluginProfile.fromPartial(value)[field as keyof PluginProfile],
  );
});
