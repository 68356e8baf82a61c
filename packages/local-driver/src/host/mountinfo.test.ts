import fc from "fast-check";
import { expect, it } from "vitest";
import { coveringMount, parseMountinfo, rootOf } from "./mountinfo.ts";

/** As the kernel writes it: seq_path and show_mnt escape these. */
const escaped = (text: string): string =>
  [...Buffer.from(text, "utf8")]
    .map((byte) => (" \t\n\\#".includes(String.fromCharCode(byte)) ? `\\${byte.toString(8).padStart(3, "0")}` : byte))
    .reduce<Buffer>(
      (all, it) => Buffer.concat([all, typeof it === "string" ? Buffer.from(it) : Buffer.from([it])]),
      Buffer.alloc(0),
    )
    .toString("utf8");

it("reads a line with any number of optional fields", () => {
  const lines = [
    "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
    "37 35 7:3 / /x ro,relatime - ext4 /dev/loop3 rw",
    "38 35 0:6 /loop3 /y rw shared:2 master:1 propagate_from:9 unbindable - devtmpfs udev rw,mode=755",
    "39 35 0:40 / /none rw - tmpfs  rw",
  ];
  expect(parseMountinfo(`${lines.join("\n")}\n`)).toEqual([
    {
      ...{ id: 36, parent: 35, dev: "98:0", root: "/mnt1", mountPoint: "/mnt2", options: ["rw", "noatime"] },
      ...{ fsType: "ext3", source: "/dev/root", superOptions: ["rw", "errors=continue"] },
    },
    {
      ...{ id: 37, parent: 35, dev: "7:3", root: "/", mountPoint: "/x", options: ["ro", "relatime"] },
      ...{ fsType: "ext4", source: "/dev/loop3", superOptions: ["rw"] },
    },
    {
      ...{ id: 38, parent: 35, dev: "0:6", root: "/loop3", mountPoint: "/y", options: ["rw"] },
      ...{ fsType: "devtmpfs", source: "udev", superOptions: ["rw", "mode=755"] },
    },
    {
      ...{ id: 39, parent: 35, dev: "0:40", root: "/", mountPoint: "/none", options: ["rw"] },
      ...{ fsType: "tmpfs", source: "", superOptions: ["rw"] },
    },
  ]);
});

it("gives back any path that the kernel can escape", () => {
  const name = fc.string({ unit: "binary", minLength: 1 }).filter((text) => !/[\0/\ud800-\udfff]/.test(text));
  fc.assert(
    fc.property(name, name, (root, place) => {
      const [line] = parseMountinfo(`1 0 8:1 /${escaped(root)} /${escaped(place)} rw - ext4 /dev/sda1 rw\n`);
      expect([line?.root, line?.mountPoint]).toEqual([`/${root}`, `/${place}`]);
    }),
  );
});

it.each(["", "x", "1 2", "1 2 8:1 / /x rw shared:1", "1 2 8 / /x rw - ext4 /dev/x rw", "a 2 8:1 / /x rw - ext4 a rw"])(
  "does not pass over a line that it cannot read: %j",
  (line) => {
    if (line === "") expect(parseMountinfo("\n")).toEqual([]);
    else expect(() => parseMountinfo(`${line}\n`)).toThrow(/a line of the mount table cannot be read/);
  },
);

const line = (id: number, parent: number, mountPoint: string, root = "/") => ({
  ...{
    id,
    parent,
    mountPoint,
    root,
    dev: `8:${id}`,
    fsType: "ext4",
    source: "x",
    options: ["rw"],
    superOptions: ["rw"],
  },
});

it("finds what a path is on as the kernel walks it", () => {
  const table = [line(1, 0, "/"), line(2, 1, "/var"), line(3, 2, "/var/lib", "/deep"), line(4, 1, "/varnish")];
  const on = (place: string) => {
    const found = coveringMount(table, place);
    return found === undefined ? undefined : [found.id, rootOf(found, place)];
  };
  expect(on("/")).toEqual([1, "/"]);
  expect(on("/etc/x")).toEqual([1, "/etc/x"]);
  expect(on("/var")).toEqual([2, "/"]);
  expect(on("/var/libx")).toEqual([2, "/libx"]);
  expect(on("/var/lib/a/b")).toEqual([3, "/deep/a/b"]);
  expect(on("/var/lib")).toEqual([3, "/deep"]);
  expect(on("/varnish/x")).toEqual([4, "/x"]);
});

it("sees what is on top, not what it hides", () => {
  const stacked = [line(1, 0, "/"), line(2, 1, "/a/b"), line(3, 1, "/a"), line(4, 3, "/a", "/top"), line(5, 2, "/a/b")];
  // /a/b was mounted before /a was, and is out of sight.
  expect(coveringMount(stacked, "/a/b")?.id).toBe(4);
  expect(coveringMount(stacked, "/a")?.id).toBe(4);
});

it("bears a table in which the root's parent is missing, and an empty one", () => {
  expect(coveringMount([line(27, 1, "/"), line(30, 27, "/x")], "/x/y")?.id).toBe(30);
  expect(coveringMount([line(1, 1, "/")], "/x")?.id).toBe(1);
  expect(coveringMount([], "/x")).toBeUndefined();
});
