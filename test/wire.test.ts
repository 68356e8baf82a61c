// proto/csi/v1/csi.proto is written by hand, so it is held to the table of CSI's wire shape beside it: a wrong number there
// would be read by every plugin as another field. The table is the union of 1.12 and 1.13, for plugins of both are served.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compareRows, type DescriptorSet, tableRows, wireRows } from "./support/wire-rows.ts";

const root = path.resolve(import.meta.dirname, "..");
const buf = path.join(root, "node_modules", ".bin", "buf");
const csiFolder = path.join(root, "proto", "csi", "v1");

let work: string;
let text: string;
let table: readonly string[];

beforeAll(async () => {
  work = await mkdtemp(path.join(tmpdir(), "holdfast-wire-"));
  text = await readFile(path.join(csiFolder, "wire.tsv"), "utf8");
  table = tableRows(text);
});

afterAll(async () => {
  await rm(work, { recursive: true, force: true });
});

async function compile(protoFolder: string, imageName: string): Promise<DescriptorSet> {
  const image = path.join(work, imageName);
  await promisify(execFile)(buf, ["build", protoFolder, "--as-file-descriptor-set", "-o", image], { cwd: root });
  return JSON.parse(await readFile(image, "utf8"));
}

const kinds = (rows: readonly string[]): Record<string, number> =>
  Object.fromEntries(
    Object.entries(Object.groupBy(rows, (row) => row.split("\t")[0] ?? "")).map(([kind, of]) => [
      kind,
      of?.length ?? 0,
    ]),
  );

describe("the table of CSI", () => {
  it("is whole: 299 rows of 1.12, 333 of 1.13, 340 of both, none twice", () => {
    expect(tableRows(text, "1.12")).toHaveLength(299);
    expect(tableRows(text, "1.13")).toHaveLength(333);
    expect(table).toHaveLength(340);
    expect(new Set(table).size).toBe(340);
  });

  it("has every kind of row in each version", () => {
    expect(kinds(tableRows(text, "1.12"))).toEqual({ rpc: 32, message: 17, field: 196, enum: 47, extension: 7 });
    expect(kinds(tableRows(text, "1.13"))).toEqual({ rpc: 36, message: 17, field: 216, enum: 57, extension: 7 });
  });

  it("gives a number of one owner to one name alone, so that no version reads another's field as its own", () => {
    const numbered = table.map((row) => row.split("\t")).filter(([, , number]) => number !== "");
    const places = numbered.map(([kind, owner, number]) => `${kind} ${owner} ${number}`);
    // Options of different kinds share a number on purpose.
    expect(places.filter((place, index) => places.indexOf(place) !== index)).toEqual([]);
  });
});

describe("csi.proto", () => {
  it("has each row of the table and nothing besides", async () => {
    const image = await compile("proto", "whole.json");
    expect(compareRows(table, wireRows(image, "csi.v1"))).toEqual({ missing: [], extra: [] });
  });
});

describe("the comparison itself", () => {
  // Each of these would let a plugin misread us, or a secret into a log. All are planted in one copy of csi.proto; the rows
  // that then differ must be these and no others.
  const planted: readonly { what: string; from: string; to: string; missing: string; extra: string }[] = [
    {
      what: "a changed number",
      from: "string vendor_version = 2;",
      to: "string vendor_version = 4;",
      missing: "field\tcsi.v1.GetPluginInfoResponse\t2\tvendor_version\tstring",
      extra: "field\tcsi.v1.GetPluginInfoResponse\t4\tvendor_version\tstring",
    },
    {
      what: "a changed type",
      from: "int64 max_volumes_per_node = 2;",
      to: "int32 max_volumes_per_node = 2;",
      missing: "field\tcsi.v1.NodeGetInfoResponse\t2\tmax_volumes_per_node\tint64",
      extra: "field\tcsi.v1.NodeGetInfoResponse\t2\tmax_volumes_per_node\tint32",
    },
    {
      what: "a list become a single value",
      from: "repeated string source_volume_ids = 2;",
      to: "string source_volume_ids = 2;",
      missing: "field\tcsi.v1.CreateVolumeGroupSnapshotRequest\t2\tsource_volume_ids\trepeated string",
      extra: "field\tcsi.v1.CreateVolumeGroupSnapshotRequest\t2\tsource_volume_ids\tstring",
    },
    {
      what: "a map with another value type",
      from: "map<string, string> segments = 1;",
      to: "map<string, int64> segments = 1;",
      missing: "field\tcsi.v1.Topology\t1\tsegments\tmap<string,string>",
      extra: "field\tcsi.v1.Topology\t1\tsegments\tmap<string,int64>",
    },
    {
      what: "presence where there was none",
      from: "string fs_type = 1;",
      to: "optional string fs_type = 1;",
      missing: "field\tcsi.v1.VolumeCapability.MountVolume\t1\tfs_type\tstring",
      extra: "field\tcsi.v1.VolumeCapability.MountVolume\t1\tfs_type\tstring optional",
    },
    {
      what: "a secret no longer marked as one",
      from: "map<string, string> secrets = 7 [(csi_secret) = true];",
      to: "map<string, string> secrets = 7 [(csi_secret) = false];",
      missing: "field\tcsi.v1.NodePublishVolumeRequest\t7\tsecrets\tmap<string,string> csi.v1.csi_secret",
      extra: "field\tcsi.v1.NodePublishVolumeRequest\t7\tsecrets\tmap<string,string>",
    },
    {
      what: "an oneof under another name",
      from: "oneof access_type {",
      to: "oneof access {",
      missing: "field\tcsi.v1.VolumeCapability\t1\tblock\tcsi.v1.VolumeCapability.BlockVolume oneof access_type",
      extra: "field\tcsi.v1.VolumeCapability\t1\tblock\tcsi.v1.VolumeCapability.BlockVolume oneof access",
    },
    {
      what: "an enum value with another number",
      from: "PUBLISH_READONLY = 8;",
      to: "PUBLISH_READONLY = 88;",
      missing: "enum\tcsi.v1.ControllerServiceCapability.RPC.Type\t8\tPUBLISH_READONLY",
      extra: "enum\tcsi.v1.ControllerServiceCapability.RPC.Type\t88\tPUBLISH_READONLY",
    },
    {
      what: "a stream become a single reply",
      from: "returns (stream GetMetadataDeltaResponse)",
      to: "returns (GetMetadataDeltaResponse)",
      missing:
        "rpc\tcsi.v1.SnapshotMetadata\t\tGetMetadataDelta\tcsi.v1.GetMetadataDeltaRequest -> stream csi.v1.GetMetadataDeltaResponse",
      extra:
        "rpc\tcsi.v1.SnapshotMetadata\t\tGetMetadataDelta\tcsi.v1.GetMetadataDeltaRequest -> csi.v1.GetMetadataDeltaResponse",
    },
    {
      what: "an option with another number",
      from: "bool csi_secret = 1059;",
      to: "bool csi_secret = 1061;",
      missing: "extension\tgoogle.protobuf.FieldOptions\t1059\tcsi_secret\tbool",
      extra: "extension\tgoogle.protobuf.FieldOptions\t1061\tcsi_secret\tbool",
    },
    {
      what: "an empty message that got a field",
      from: "message NodeGetInfoRequest {}",
      to: "message NodeGetInfoRequest { bool planted = 1; }",
      missing: "message\tcsi.v1.NodeGetInfoRequest\t\t\t(no fields)",
      extra: "field\tcsi.v1.NodeGetInfoRequest\t1\tplanted\tbool",
    },
  ];
  // The rest of the renamed oneof.
  const besides = {
    missing: ["field\tcsi.v1.VolumeCapability\t2\tmount\tcsi.v1.VolumeCapability.MountVolume oneof access_type"],
    extra: ["field\tcsi.v1.VolumeCapability\t2\tmount\tcsi.v1.VolumeCapability.MountVolume oneof access"],
  };

  let found: ReturnType<typeof compareRows>;

  beforeAll(async () => {
    const source = await readFile(path.join(csiFolder, "csi.proto"), "utf8");
    const changed = planted.reduce((text, { what, from, to }) => {
      if (text.split(from).length !== 2) throw new Error(`${what}: "${from}" must stand in csi.proto exactly once`);
      return text.replace(from, to);
    }, source);
    const folder = path.join(work, "planted", "csi", "v1");
    await mkdir(folder, { recursive: true });
    await writeFile(path.join(folder, "csi.proto"), changed);
    found = compareRows(table, wireRows(await compile(path.join(work, "planted"), "planted.json"), "csi.v1"));
  });

  it.each(planted)("reports: $what", ({ missing, extra }) => {
    expect(found.missing).toContain(missing);
    expect(found.extra).toContain(extra);
  });

  it("reports nothing else", () => {
    expect(found.missing.toSorted()).toEqual([...planted.map((each) => each.missing), ...besides.missing].sort());
    expect(found.extra.toSorted()).toEqual([...planted.map((each) => each.extra), ...besides.extra].sort());
  });

  it("reports a row that the image lacks altogether", () => {
    expect(compareRows(table, table.slice(1))).toEqual({ missing: table.slice(0, 1), extra: [] });
  });
});
