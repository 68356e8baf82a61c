import { expect, test } from "vitest";
import { volumeDifference } from "./volume-difference.ts";

const capability = { attachment_mode: "FILE", access_mode: "ONE", fs_type: "ext4", mount_flags: [] };
const other = { ...capability, access_mode: "MANY" };
const record = {
  plugin: "local",
  labels: { team: "search" },
  policy: { reclaim: "DELETE", node_loss: "WAIT", requires_republish: false },
  secrets: { create: { ref: "env:A" }, delete: { ref: "env:B" } },
  capabilities: [capability, other],
  capacity: { required_bytes: "10485760", limit_bytes: "0", actual_bytes: "20971520" },
  mutable_parameters: { iops: "100", tier: "a" },
  parameters: { kind: "loop" },
  binding: "VOLUME_BINDING_IMMEDIATE",
  topology: { required: [], preferred: [], accessible: [{ segments: { zone: "a" } }] },
};
const difference = (given: Record<string, unknown>) => volumeDifference(given, given, record);
const nothing = { lines: [], update: {}, grows: false, mutableParameters: {}, fixed: [] };

test("what the file leaves out, or says as it is, is left alone", () => {
  expect(difference({})).toEqual(nothing);
  expect(
    difference({
      plugin: "local",
      labels: { team: "search" },
      policy: { reclaim: "DELETE" },
      capabilities: [other, capability],
      capacity: { required_bytes: "10485760" },
      mutable_parameters: { iops: "100" },
      topology: {},
    }),
  ).toEqual(nothing);
});

test("labels and secrets are replaced as a whole, a policy keeps what is not named", () => {
  expect(
    difference({ labels: { tier: "1" }, secrets: { create: { ref: "env:C" } }, policy: { node_loss: "FENCE" } }),
  ).toEqual({
    ...nothing,
    lines: [
      "labels.team: search -> (none)",
      "labels.tier: (none) -> 1",
      "secrets.create.ref: env:A -> env:C",
      "secrets.delete.ref: env:B -> (none)",
      "policy.node_loss: WAIT -> FENCE",
    ],
    update: {
      labels: { tier: "1" },
      secrets: { create: { ref: "env:C" } },
      policy: { reclaim: "DELETE", node_loss: "FENCE", requires_republish: false },
    },
  });
});

test("capabilities are a set", () => {
  const more = { ...capability, fs_type: "xfs" };
  expect(difference({ capabilities: [more, other] })).toEqual({
    ...nothing,
    lines: ["capabilities: FILE ONE ext4 -> (none)", "capabilities: (none) -> FILE ONE xfs"],
    update: { capabilities: [more, other] },
  });
});

test("growth, and parameters that change", () => {
  expect(
    difference({
      capacity: { required_bytes: "31457280", limit_bytes: "41943040" },
      mutable_parameters: { iops: "200", x: "1" },
    }),
  ).toEqual({
    ...nothing,
    lines: [
      "mutable_parameters.iops: 100 -> 200",
      "mutable_parameters.x: (none) -> 1",
      "capacity.required_bytes: 20 MiB -> 30 MiB",
    ],
    grows: true,
    mutableParameters: { iops: "200", x: "1" },
  });
});

test.each([
  ["plugin", { plugin: "other" }],
  ["parameters", { parameters: {} }],
  ["content_source", { content_source: { snapshot: "s" } }],
  ["binding", { binding: "VOLUME_BINDING_FIRST_CLAIM" }],
  ["topology", { topology: { required: [{ segments: { zone: "b" } }] } }],
  ["inline_secrets", { inline_secrets: { user: "a" } }],
  ["capacity.required_bytes", { capacity: { required_bytes: "5242880" } }],
  ["capacity.limit_bytes", { capacity: { required_bytes: "10485760", limit_bytes: "1" } }],
])("%s is refused and not passed over", (field, given) => {
  expect(difference(given).fixed.map((each) => each.field)).toEqual([field]);
});
