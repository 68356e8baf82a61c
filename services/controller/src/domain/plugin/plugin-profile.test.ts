import { describe, expect, it } from "vitest";
import { checkProfile, defaultProfile, profiledMethods, readCode, settledProfile } from "./plugin-profile.ts";

const fields = (profile: Partial<typeof defaultProfile>): readonly string[] =>
  checkProfile({ ...defaultProfile, ...profile }).map(({ field }) => field);

describe("a plugin's profile", () => {
  it("of nobody's making fits an unknown driver", () => {
    expect(checkProfile(defaultProfile)).toEqual([]);
    expect(defaultProfile).toMatchObject({
      maxConcurrentCalls: 64,
      maxConcurrentAttachesPerNode: 1,
      fence: "none",
      assumedExpansion: "offline",
      codeReadings: [],
      exclusiveMethods: [],
    });
  });

  it("has its zeros filled in and its lists without repeats, so that the same is written alike", () => {
    const sent = { ...defaultProfile, maxConcurrentCalls: 0, maxConcurrentAttachesPerNode: 0 };
    expect(settledProfile(sent)).toEqual(defaultProfile);
    const twice = { ...defaultProfile, exclusiveMethods: ["CreateSnapshot", "CreateSnapshot"] };
    expect(settledProfile(twice).exclusiveMethods).toEqual(["CreateSnapshot"]);
  });

  it("is refused with every violation at once", () => {
    expect(
      fields({
        maxConcurrentCalls: 5_000,
        maxConcurrentAttachesPerNode: -1,
        maxVolumesPerNode: 1.5,
        nodeClasses: [
          { nodes: "", topology: {}, maxVolumes: 1, attachPoolLimit: 0 },
          { nodes: "*gpu", topology: {}, maxVolumes: -1, attachPoolLimit: 0 },
          { nodes: "gpu-*", topology: {}, maxVolumes: 0, attachPoolLimit: 0 },
        ],
        allowedFsTypes: [""],
        allowedMountFlags: ["a\u0000"],
        exclusiveMethods: ["NodeStageVolume"],
        codeReadings: [{ method: "Nonsense", code: "OK", readAs: "OK" }],
      }),
    ).toEqual([
      "profile.max_concurrent_calls",
      "profile.max_concurrent_attaches_per_node",
      "profile.max_volumes_per_node",
      "profile.node_classes[0]",
      "profile.node_classes[1].nodes",
      "profile.node_classes[1].max_volumes",
      "profile.allowed_fs_types",
      "profile.allowed_mount_flags",
      "profile.code_readings[0].csi_method",
      "profile.code_readings[0].code",
      "profile.code_readings[0].read_as",
      "profile.exclusive_methods[0]",
    ]);
  });

  it("never makes a code prove what the driver did not say, but for one reading of one call", () => {
    const certain = ["OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "UNIMPLEMENTED"];
    const accepted = profiledMethods.flatMap((method) =>
      ["NOT_FOUND", "INTERNAL", "UNAVAILABLE", "INVALID_ARGUMENT"].flatMap((code) =>
        certain
          .filter((readAs) => fields({ codeReadings: [{ method, code, readAs }] }).length === 0)
          .map((readAs) => `${method} ${code} ${readAs}`),
      ),
    );
    expect(accepted).toEqual(["ControllerUnpublishVolume NOT_FOUND OK"]);
    for (const readAs of ["UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED"])
      expect(fields({ codeReadings: [{ method: "CreateVolume", code: "INVALID_ARGUMENT", readAs }] })).toEqual([]);
  });

  it("reads a code once, and leaves the others as they are", () => {
    const reading = { method: "CreateVolume", code: "INVALID_ARGUMENT", readAs: "UNAVAILABLE" };
    const profile = { ...defaultProfile, codeReadings: [reading] };
    expect(readCode(profile, "CreateVolume", "INVALID_ARGUMENT")).toBe("UNAVAILABLE");
    expect(readCode(profile, "DeleteVolume", "INVALID_ARGUMENT")).toBe("INVALID_ARGUMENT");
    expect(fields({ codeReadings: [reading, reading] })).toEqual(["profile.code_readings[1]"]);
  });
});
