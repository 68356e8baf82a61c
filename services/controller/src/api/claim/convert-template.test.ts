import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  ClaimSpec,
  type DeepPartial,
  VolumeLifetime,
  type VolumeTemplate,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { expect, it } from "vitest";
import { validateCreateClaims } from "../../commands/claim/validate-claims.ts";
import { createChecks, refuseAll } from "../check-request.ts";
import { claimsInput } from "./convert-claim.ts";

const capability = {
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
};
const good: DeepPartial<VolumeTemplate> = {
  lifetime: VolumeLifetime.VOLUME_LIFETIME_EPHEMERAL,
  plugin: "sim.example",
  capacity: { requiredBytes: 10n },
  secrets: { node_stage: { ref: "secret:login" } },
  snapshot: "monday",
};

const read = (template: DeepPartial<VolumeTemplate>, more: DeepPartial<ClaimSpec> = {}) => {
  const checks = createChecks();
  const spec = ClaimSpec.fromPartial({ alias: "scratch", capability, template, ...more });
  const request = { namespace: "ns", workload: "web", node: "n1", claims: [spec], requestId: "", queue: undefined };
  const input = claimsInput(request, checks);
  return { input, checks };
};
const violations = (template: DeepPartial<VolumeTemplate>, more: DeepPartial<ClaimSpec> = {}): readonly string[] => {
  const { input, checks } = read(template, more);
  try {
    refuseAll(checks, () => validateCreateClaims(input, () => true));
    validateCreateClaims(input, () => true);
  } catch (error) {
    if (isHoldfastError(error)) return error.violations.map(({ field }) => field);
    throw error;
  }
  return [];
};

it("a template is a volume of its own, named after its claim, with the claim's capability, for the node of the claim", () => {
  const [spec] = read(good).input.claims;
  expect(spec?.volume).toBe(claimVolumeId("web", "scratch"));
  expect(spec?.template).toMatchObject({
    namespace: "ns",
    id: spec?.volume,
    plugin: "sim.example",
    lateBinding: true,
    ephemeral: { workload: "web", alias: "scratch" },
    capacity: { required: 10, limit: 0 },
    capabilities: [{ accessMode: "SINGLE_NODE_WRITER", attachmentMode: "FILE_SYSTEM" }],
    contentSource: { kind: "snapshot", id: "monday" },
    secretRefs: { nodeStage: expect.stringContaining("login") },
  });
  const kept = read({ ...good, lifetime: VolumeLifetime.VOLUME_LIFETIME_RETAIN }).input.claims[0];
  expect(kept?.template).not.toHaveProperty("ephemeral");
  expect(violations(good)).toEqual([]);
});

it("what is wrong with it is told by its fields, all at once", () => {
  expect(
    violations({ plugin: "", secrets: { login: { ref: "x" } } }, { volume: "data", alias: "", capability: undefined }),
  ).toEqual(
    expect.arrayContaining([
      "claims[0].volume",
      "claims[0].alias",
      "claims[0].capability",
      "claims[0].template.lifetime",
      "claims[0].template.secrets",
      "claims[0].template.plugin",
    ]),
  );
  expect(violations({ ...good, lifetime: 7 as never })).toEqual(["claims[0].template.lifetime"]);
  expect(violations({ ...good, capacity: { requiredBytes: 10n, limitBytes: 5n } })).toHaveLength(1);
});
