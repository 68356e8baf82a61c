import { expect, test } from "vitest";
import { nomadCsiVolume, withClashes } from "./nomad-csi-volume.ts";

/** As Nomad 1.10 answers it, in short. */
const volume = {
  ...{ ID: "db[0]", Name: "database", ExternalID: "vol-0a1", Namespace: "shop", PluginID: "ebs0" },
  ...{ Provider: "ebs.csi.aws.com", AccessMode: "", AttachmentMode: "", Capacity: 16_777_216, Schedulable: true },
  MountOptions: { FSType: "ext4", MountFlags: ["noatime"] },
  ...{ Secrets: {}, Parameters: { type: "gp3" }, Context: { pool: "a" } },
  Topologies: [{ Segments: { zone: "eu-1a" } }],
  RequestedCapabilities: [
    { AccessMode: "single-node-writer", AttachmentMode: "file-system" },
    { AccessMode: "multi-node-reader-only", AttachmentMode: "block-device" },
  ],
  ...{ ReadAllocs: {}, WriteAllocs: null, Allocations: [{ ID: "3f1", ClientStatus: "complete" }] },
};
const none = { plugins: {}, ids: {} };
const fields = (change: object, mapping = none): readonly string[] =>
  nomadCsiVolume({ ...volume, ...change }, mapping).violations.map((text) => text.split(" ")[0] ?? "");

test("all that Nomad says of a volume is asked for", () => {
  const { request, violations } = nomadCsiVolume(volume, none);
  expect(violations).toEqual([]);
  expect(request).toMatchObject({
    ...{ namespace: "shop", id: "db-0", plugin: "ebs.csi.aws.com", externalId: "vol-0a1" },
    capabilities: [
      { accessMode: 1, attachmentMode: 1, fsType: "ext4", mountFlags: ["noatime"] },
      { attachmentMode: 2, fsType: "", mountFlags: [] },
    ],
    ...{ context: { pool: "a" }, parameters: { type: "gp3" }, capacity: { requiredBytes: 16_777_216n } },
    accessibleTopology: [{ segments: { zone: "eu-1a" } }],
    labels: { "nomad.id": "db[0]", "nomad.name": "database" },
  });
  const bare = nomadCsiVolume(
    { ...volume, ExternalID: "", Namespace: "" },
    { plugins: { ebs0: "x" }, ids: { "db[0]": "d" } },
  );
  expect(bare.request).toMatchObject({ externalId: "db[0]", namespace: "default", plugin: "x", id: "d" });
});

test("what cannot be taken over as it is is told, all of it", () => {
  const wrong = {
    ...{ ID: "A_B", Namespace: "Shop", Provider: "", Capacity: -1, WriteAllocs: { "9c": null } },
    MountOptions: { FSType: "ext4", MountFlags: ["[REDACTED]"] },
    Secrets: { password: "[REDACTED]" },
    Parameters: { n: 1 },
    RequestedCapabilities: [{ AccessMode: "single-node-painter", AttachmentMode: "" }],
  };
  expect([...fields(wrong)].sort()).toEqual([
    ...["Allocations", "Capacity", "ID", "MountOptions.MountFlags", "Namespace", "Parameters.n", "Provider"],
    ...["RequestedCapabilities[0].AccessMode", "RequestedCapabilities[0].AttachmentMode", "Secrets.password"],
  ]);
  expect(fields({ RequestedCapabilities: undefined, CurrentReaders: 2 })).toEqual([
    "Allocations",
    "RequestedCapabilities",
  ]);
  expect(fields({ Allocations: [{ ID: "3f1", ClientStatus: "running" }] })).toEqual(["Allocations"]);
  expect(fields({ HostPath: "/srv" })).toEqual(["HostPath"]);
  expect(fields({ ID: undefined })).toEqual(["ID"]);
});

test("two that would be one are told of each other", () => {
  const other = { ...volume, ID: "db-0", ExternalID: "vol-2" };
  const copy = { ...volume, ID: "copy" };
  const told = withClashes([volume, other, copy].map((one) => nomadCsiVolume(one, none)));
  expect(told.map(({ violations }) => violations)).toEqual([
    [expect.stringContaining("shop/db-0"), expect.stringContaining("shop/copy")],
    [expect.stringContaining("shop/db[0]")],
    [expect.stringContaining("shop/db[0]")],
  ]);
});
