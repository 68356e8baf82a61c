import { describe, expect, test } from "vitest";
import { type VolumeOptions, type VolumeTemplates, wantedVolume } from "./wanted-volume.ts";

const templates: VolumeTemplates = {
  fast: { plugin: "csi.fast", size: "10GiB", "param.tier": "gold", flags: "noatime,nodiratime" },
  scratch: { plugin: "csi.slow", reclaim: "delete" },
};
const made = (options: VolumeOptions, of: VolumeTemplates = templates) => {
  const result = wantedVolume("data", options, of);
  if ("faults" in result)
    throw new Error(result.faults.map(({ field, description }) => `${field}: ${description}`).join("; "));
  return result.volume;
};
const fields = (name: string, options: VolumeOptions): readonly string[] => {
  const result = wantedVolume(name, options, templates);
  return "faults" in result ? result.faults.map(({ field }) => field) : [];
};

describe("what Docker asks for", () => {
  test("all that options say", () => {
    const options = {
      ...{ plugin: "csi.x", size: "1GiB", limit: "2GiB", fs: "xfs", mode: "single-node-single-writer" },
      ...{ flags: "noatime", reclaim: "retain", create: "now", "param.a": "1", "label.team": "web" },
    };
    expect(made(options)).toEqual({
      id: "data",
      plugin: "csi.x",
      requiredBytes: 1n << 30n,
      limitBytes: 2n << 30n,
      accessMode: "SINGLE_NODE_SINGLE_WRITER",
      fsType: "xfs",
      mountFlags: ["noatime"],
      parameters: { a: "1" },
      labels: { team: "web" },
      reclaim: "retain",
      atOnce: true,
    });
  });

  test("a plugin alone: deleted when it is removed, made with its first mount, in the best mode there is", () => {
    const volume = made({ plugin: "csi.x" });
    expect(volume).toMatchObject({ reclaim: "delete", atOnce: false, requiredBytes: 0n, mountFlags: [] });
    expect(volume).not.toHaveProperty("accessMode");
  });

  test("of a template is retained unless that says otherwise, and options go before what it says", () => {
    const volume = made({ template: "fast", size: "20GiB", "param.zone": "b" });
    expect(volume).toMatchObject({
      ...{ plugin: "csi.fast", requiredBytes: 20n << 30n, reclaim: "retain" },
      ...{ parameters: { tier: "gold", zone: "b" }, mountFlags: ["noatime", "nodiratime"] },
    });
    expect(made({ template: "scratch" }).reclaim).toBe("delete");
    expect(made({ template: "fast", reclaim: "delete" }).reclaim).toBe("delete");
  });

  test("of nothing named is what the template `default` says", () => {
    expect(made({}, { default: { plugin: "csi.d" } })).toMatchObject({ plugin: "csi.d", reclaim: "retain" });
    expect(made({ plugin: "csi.x" }, { default: { plugin: "csi.d", size: "1GiB" } })).toMatchObject({
      ...{ plugin: "csi.x", requiredBytes: 0n, reclaim: "delete" },
    });
    expect(fields("data", {})).toEqual(["plugin"]);
  });

  test("that is wrong is told at once, each violation", () => {
    const options = {
      sise: "1",
      size: "ten",
      mode: "shared",
      reclaim: "keep",
      create: "later",
      template: "none",
      "param.": "x",
    };
    expect([...fields("Data", options)].sort()).toEqual(
      ["Name", "create", "mode", "param.", "plugin", "reclaim", "sise", "size", "template"].sort(),
    );
    expect(fields("data", { template: "toString" })).toContain("template");
    expect(fields("a..b", { plugin: "p" })).toEqual(["Name"]);
  });
});
