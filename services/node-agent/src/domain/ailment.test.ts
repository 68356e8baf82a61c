import type { MountLine } from "@holdfast/model/mountinfo";
import { describe, expect, test } from "vitest";
import { ailmentOf, mayAil } from "./ailment.ts";

const line = (fsType: string): MountLine => ({
  id: 1,
  parent: 0,
  device: "0:40",
  root: "/",
  path: "/t",
  options: [],
  fsType,
  source: "s",
  superOptions: "rw",
});
const said = (code: number, words = "") => ({ kind: "ended", code, said: words }) as const;

describe("which file systems may ail", () => {
  test.each(["fuse", "fuse.s3fs", "fuseblk", "nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs"])(
    "%s",
    (fsType) => {
      expect(mayAil(line(fsType))).toBe(true);
    },
  );

  test.each(["ext4", "xfs", "btrfs", "tmpfs", "overlay", "devtmpfs"])("not %s", (fsType) => {
    expect(mayAil(line(fsType))).toBe(false);
  });
});

describe("what a look says", () => {
  const notConnected = "stat: cannot read file system information for '/t': Transport endpoint is not connected";
  test.each([
    ["fuse.x", said(0), undefined],
    ["fuse.x", said(1, notConnected), "dead"],
    ["fuse", said(1, "stat: …: Software caused connection abort"), "dead"],
    ["fuse.x", said(1, "stat: …: Permission denied"), undefined],
    ["nfs4", said(1, notConnected), undefined],
    ["nfs4", { kind: "hung" }, "hung"],
    ["fuse.x", { kind: "hung" }, "hung"],
  ] as const)("of %s, %j: %s", (fsType, end, ailment) => {
    expect(ailmentOf(line(fsType), end)).toBe(ailment);
  });
});
