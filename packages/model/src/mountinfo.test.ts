import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseMountinfo, parseMountLine } from "./mountinfo.ts";

describe("lines of mountinfo", () => {
  test.each([
    [
      "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
      {
        id: 36,
        parent: 35,
        device: "98:0",
        root: "/mnt1",
        path: "/mnt2",
        options: ["rw", "noatime"],
        fsType: "ext3",
        source: "/dev/root",
        superOptions: "rw,errors=continue",
      },
    ],
    ["40 1 0:21 / /proc rw - proc proc rw", { path: "/proc", fsType: "proc" }],
    [
      "41 1 8:1 /a /b ro,relatime shared:1 master:2 propagate_from:3 unbindable - xfs /dev/x rw",
      { options: ["ro", "relatime"], fsType: "xfs" },
    ],
    ["42 1 8:1 /gone//deleted /b rw - ext4 /dev/x rw", { root: "/gone//deleted" }],
    [
      "43 1 8:1 /with\\040space /tab\\011and\\134back\\012line rw - ext4 /dev/x rw",
      { root: "/with space", path: "/tab\tand\\back\nline" },
    ],
    ["44 1 0:5 /loop0 /block rw - devtmpfs udev rw", { root: "/loop0", fsType: "devtmpfs" }],
    [
      "45 1 0:50 / /o rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,d",
      { source: "overlay", superOptions: "rw,lowerdir=/a:/b,upperdir=/c,d" },
    ],
    ["46 1 0:51 / /e rw - fuse.x \\043odd rw", { source: "#odd" }],
    ["47 1 0:52 / /none rw -  tmpfs  rw", { fsType: "" }],
  ])("%s", (text, fields) => expect(parseMountLine(text)).toMatchObject(fields));

  test.each([
    "",
    "x",
    "36 35 98:0 /a",
    "36 35 98:0 /a /b rw ext4 x rw",
    "a 35 98:0 /a /b rw - ext4 x rw",
    "36 35 98 /a /b rw - ext4 x rw",
  ])("%j is no such line, and is not passed over", (text) => {
    expect(parseMountLine(text)).toBeUndefined();
    if (text !== "") expect(() => parseMountinfo(`${text}\n`)).toThrow("cannot be read");
  });

  const escaped = (text: string) =>
    Buffer.from(text, "utf8")
      .toString("latin1")
      .replace(/[ \t\n\\]/g, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`);
  const name = fc
    .string({ unit: "grapheme", minLength: 1, maxLength: 30 })
    .filter((text) => !text.includes("\0") && text.isWellFormed());

  test("any path survives the way through the kernel's escapes", () => {
    fc.assert(
      fc.property(
        name,
        name,
        fc.nat(),
        fc.array(fc.constantFrom("shared:1", "master:2", "unbindable")),
        (root, path, id, optional) => {
          const text = [
            id,
            1,
            "8:1",
            `/${escaped(root)}`,
            `/${escaped(path)}`,
            "rw",
            ...optional,
            "-",
            "ext4",
            "x",
            "rw",
          ].join(" ");
          const parsed = parseMountLine(Buffer.from(text, "latin1").toString("utf8"));
          expect(parsed).toMatchObject({ id, root: `/${root}`, path: `/${path}` });
        },
      ),
    );
  });

  test("whatever text it is given, it parses or says no; it never throws anything else", () => {
    fc.assert(fc.property(fc.string(), (text) => void parseMountLine(text)));
  });
});

/** As the kernel writes it: seq_path and show_mnt escape these. */
const escaped = (text: string): string =>
  [...Buffer.from(text, "utf8")]
    .map((byte) => (" \t\n\\#".includes(String.fromCharCode(byte)) ? `\\${byte.toString(8).padStart(3, "0")}` : byte))
    .reduce<Buffer>(
      (all, it) => Buffer.concat([all, typeof it === "string" ? Buffer.from(it) : Buffer.from([it])]),
      Buffer.alloc(0),
    )
    .toString("utf8");

test("reads a line with any number of optional fields", () => {
  const lines = [
    "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
    "37 35 7:3 / /x ro,relatime - ext4 /dev/loop3 rw",
    "38 35 0:6 /loop3 /y rw shared:2 master:1 propagate_from:9 unbindable - devtmpfs udev rw,mode=755",
    "39 35 0:40 / /none rw - tmpfs  rw",
  ];
  expect(parseMountinfo(`${lines.join("\n")}\n`)).toEqual([
    {
      ...{ id: 36, parent: 35, device: "98:0", root: "/mnt1", path: "/mnt2", options: ["rw", "noatime"] },
      ...{ fsType: "ext3", source: "/dev/root", superOptions: "rw,errors=continue" },
    },
    {
      ...{ id: 37, parent: 35, device: "7:3", root: "/", path: "/x", options: ["ro", "relatime"] },
      ...{ fsType: "ext4", source: "/dev/loop3", superOptions: "rw" },
    },
    {
      ...{ id: 38, parent: 35, device: "0:6", root: "/loop3", path: "/y", options: ["rw"] },
      ...{ fsType: "devtmpfs", source: "udev", superOptions: "rw,mode=755" },
    },
    {
      ...{ id: 39, parent: 35, device: "0:40", root: "/", path: "/none", options: ["rw"] },
      ...{ fsType: "tmpfs", source: "", superOptions: "rw" },
    },
  ]);
});

test("gives back any path that the kernel can escape", () => {
  const name = fc.string({ unit: "binary", minLength: 1 }).filter((text) => !/[\0/\ud800-\udfff]/.test(text));
  fc.assert(
    fc.property(name, name, (root, place) => {
      const [line] = parseMountinfo(`1 0 8:1 /${escaped(root)} /${escaped(place)} rw - ext4 /dev/sda1 rw\n`);
      expect([line?.root, line?.path]).toEqual([`/${root}`, `/${place}`]);
    }),
  );
});

test.each([
  "",
  "x",
  "1 2",
  "1 2 8:1 / /x rw shared:1",
  "1 2 8 / /x rw - ext4 /dev/x rw",
  "a 2 8:1 / /x rw - ext4 a rw",
])("does not pass over a line that it cannot read: %j", (line) => {
  if (line === "") expect(parseMountinfo("\n")).toEqual([]);
  else expect(() => parseMountinfo(`${line}\n`)).toThrow(/a line of the mount table cannot be read/);
});
