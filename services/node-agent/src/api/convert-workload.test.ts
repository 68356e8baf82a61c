import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { PrepareWorkloadRequest } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { VolumeLifetime } from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode, type DeepPartial } from "@holdfast/shared/gen/holdfast/v1/common";
import { describe, expect, test } from "vitest";
import { prepareFrom } from "./convert-workload.ts";

const read = (request: DeepPartial<PrepareWorkloadRequest>) => prepareFrom(PrepareWorkloadRequest.fromPartial(request));
const fieldsOf = (request: DeepPartial<PrepareWorkloadRequest>): readonly string[] => {
  try {
    read(request);
  } catch (error) {
    if (isHoldfastError(error)) return error.violations.map(({ field }) => field);
  }
  return [];
};
const good: DeepPartial<PrepareWorkloadRequest> = {
  namespace: "ns",
  workload: "web",
  volumes: [{ claim: { volume: "data" } }],
};

describe("a request to prepare a workload", () => {
  test("an alias that is not given is the volume's id; a wait that is not given is the longest", () => {
    const { order, waitMs } = read(good);
    expect(order.claims).toEqual([{ alias: "data", volume: "data", readOnly: false, capability: undefined }]);
    expect(order.volumes).toEqual([{ alias: "data", volume: "data", readOnly: false, places: [] }]);
    expect(waitMs).toBe(600_000);
    expect(read({ ...good, waitFor: { seconds: 0n, nanos: 5e8 } }).waitMs).toBe(500);
    expect(read({ ...good, waitFor: { seconds: 100_000n, nanos: 0 } }).waitMs).toBe(600_000);
  });

  test("what a driver may treat as a secret stays with the claim, and out of what is journalled", () => {
    const capability = {
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
      mountFlags: ["credentials=canary"],
    };
    const { order } = read({ ...good, volumes: [{ claim: { volume: "data", capability } }] });
    expect(order.claims[0]?.capability?.mountFlags).toEqual(["credentials=canary"]);
    expect(JSON.stringify(order.volumes)).not.toContain("canary");
  });

  test("a ticket goes with the order, and is in nothing that is journalled", () => {
    const { order } = read({ ...good, ticket: "canary" });
    expect(order.ticket).toBe("canary");
    expect(JSON.stringify([order.volumes, order.claims])).not.toContain("canary");
    expect(read(good).order.ticket).toBe("");
  });

  const scratch = {
    alias: "scratch",
    capability: {
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
    },
    template: {
      lifetime: VolumeLifetime.VOLUME_LIFETIME_EPHEMERAL,
      plugin: "csi.example",
      capacity: { requiredBytes: 10n },
      parameters: { b: "canary", a: "1" },
    },
  };

  test("the volume of a template is known by the id that the controller gives it; the same again in another order is the same", () => {
    const { order } = read({ ...good, volumes: [{ claim: scratch }] });
    const volume = claimVolumeId("web", "scratch");
    expect(order.claims).toMatchObject([{ alias: "scratch", volume, template: expect.any(String) }]);
    expect(order.volumes).toEqual([{ alias: "scratch", volume, readOnly: false, places: [] }]);
    const swapped = { ...scratch, template: { ...scratch.template, parameters: { a: "1", b: "canary" } } };
    expect(read({ ...good, volumes: [{ claim: swapped }] }).order).toEqual(order);
    const larger = { ...scratch, template: { ...scratch.template, capacity: { requiredBytes: 11n } } };
    expect(read({ ...good, volumes: [{ claim: larger }] }).order.claims).not.toEqual(order.claims);
    // Parameters are the plugin's own, and out of the journal as well.
    expect(JSON.stringify(order.volumes)).not.toContain("canary");
  });

  test("a template names no volume, and has the alias and the capability of its claim", () => {
    const { template } = scratch;
    expect(fieldsOf({ ...good, volumes: [{ claim: { volume: "data", template } }] })).toEqual([
      "volumes[0].claim.volume",
      "volumes[0].claim.alias",
      "volumes[0].claim.capability",
    ]);
  });

  test("every violation is told at once", () => {
    const wrong = {
      namespace: "No",
      workload: "a/b",
      requestId: "x".repeat(129),
      replaces: ["c/d", "ok"],
      waitFor: { seconds: -1n, nanos: 0 },
      volumes: [
        {},
        { claim: { volume: "../etc", alias: "A" } },
        {
          claim: { volume: "data" },
          mounts: [{ containerPath: "relative" }, { containerPath: "/a/../b", propagation: 9 }],
        },
        {
          claim: {
            volume: "data",
            capability: {
              attachmentMode: AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE,
              fsType: "EXT4!",
              mountFlags: ["a b"],
            },
          },
        },
      ],
    } as unknown as DeepPartial<PrepareWorkloadRequest>;
    expect([...fieldsOf(wrong)].sort()).toEqual(
      [
        "namespace",
        "workload",
        "request_id",
        "replaces[0]",
        "wait_for",
        "volumes[0].claim",
        "volumes[1].claim.volume",
        "volumes[1].claim.alias",
        "volumes[2].mounts[0].container_path",
        "volumes[2].mounts[1].container_path",
        "volumes[2].mounts[1].propagation",
        "volumes[3].claim.alias",
        "volumes[3].claim.capability.access_mode",
        "volumes[3].claim.capability.attachment_mode",
        "volumes[3].claim.capability.fs_type",
        "volumes[3].claim.capability.mount_flags[0]",
      ].sort(),
    );
  });

  test("1 to 64 volumes, and it does not replace itself", () => {
    const many = (count: number) => Array.from({ length: count }, (_, at) => ({ claim: { volume: `v${at}` } }));
    expect(fieldsOf({ ...good, volumes: [] })).toEqual(["volumes"]);
    expect(fieldsOf({ ...good, volumes: many(64) })).toEqual([]);
    expect(fieldsOf({ ...good, volumes: many(65) })).toEqual(["volumes"]);
    expect(fieldsOf({ ...good, replaces: ["web"] })).toEqual(["replaces[0]"]);
  });
});
