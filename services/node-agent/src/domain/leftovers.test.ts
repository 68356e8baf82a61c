import { parseMountinfo } from "@holdfast/model/mountinfo";
import { describe, expect, test } from "vitest";
import { mountinfoView } from "../volumes/mountinfo-view.ts";
import { leftovers } from "./mounts.ts";

const table = [
  "21 1 8:1 / / rw - ext4 /dev/sda1 rw",
  "40 21 0:50 / /root/staging/v rw - nfs server:/v rw",
  "41 21 0:50 / /root/publish/v/c rw - nfs server:/v rw",
  "42 21 0:50 / /elsewhere rw - nfs server:/v rw",
].join("\n");
const view = { ...mountinfoView(parseMountinfo(table)), foreign: () => [] };
const marks = [{ device: "0:50", root: "/" }];
const paths = ["/root/staging/v", "/root/publish/v"];

describe("what is left of a volume", () => {
  test("[I2] in a mode of many nodes: every mount at or below its paths, though nothing is known of its marks", () => {
    const found = leftovers(view, { paths, marks: [], before: [], singleNode: false });
    expect(found.map(({ path }) => path)).toEqual(["/root/staging/v", "/root/publish/v/c"]);
    const marked = leftovers(view, { paths, marks, before: [], singleNode: false });
    expect(marked.map(({ path }) => path)).toEqual(["/root/staging/v", "/root/publish/v/c"]);
  });

  test("[I2] its paths also when the mounts there were there before the first stage", () => {
    const found = leftovers(view, { paths, marks, before: [40, 41, 42], singleNode: true });
    expect(found.map(({ path }) => path)).toEqual(["/root/staging/v", "/root/publish/v/c"]);
  });

  test("[I2] in a mode of one node: its file system wherever else it shows, but for what was there before", () => {
    const everywhere = leftovers(view, { paths, marks, before: [], singleNode: true });
    expect(everywhere.map(({ path }) => path)).toEqual(["/root/staging/v", "/root/publish/v/c", "/elsewhere"]);
    const known = leftovers(view, { paths, marks, before: [42], singleNode: true });
    expect(known.map(({ path }) => path)).toEqual(["/root/staging/v", "/root/publish/v/c"]);
  });
});
