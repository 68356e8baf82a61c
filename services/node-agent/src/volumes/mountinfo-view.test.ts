import type { MountLine } from "@holdfast/model/mountinfo";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { leftovers, marksUnder, seenAt, strays } from "../domain/mounts.ts";
import { createHostPaths } from "../domain/paths.ts";
import { mountinfoView } from "./mountinfo-view.ts";

const line = (changes: Partial<MountLine>): MountLine => ({
  id: 10,
  parent: 1,
  device: "8:1",
  root: "/",
  path: "/",
  options: ["rw"],
  fsType: "ext4",
  source: "/dev/sda1",
  superOptions: "rw",
  ...changes,
});

describe("what a view answers", () => {
  const lines = [
    line({ id: 1, parent: 0 }),
    line({ id: 2, parent: 1, path: "/hf", root: "/hf" }),
    line({ id: 3, parent: 2, path: "/hf/a", device: "9:1", root: "/v" }),
    line({ id: 4, parent: 3, path: "/hf/a/below", device: "9:2" }),
    line({ id: 5, parent: 1, path: "/hf/ab", device: "9:1", root: "/v/sub" }),
    line({ id: 6, parent: 1, path: "/elsewhere", device: "9:1", root: "/vx" }),
    line({ id: 7, parent: 1, path: "/gone", device: "9:1", root: "/v//deleted" }),
  ];
  const view = { ...mountinfoView(lines), foreign: () => [] };
  const ids = (found: readonly MountLine[]) => found.map(({ id }) => id).sort();

  test("a path, and what is below it, but not what only begins like it", () => {
    expect(ids(view.at("/hf/a"))).toEqual([3]);
    expect(ids(view.under("/hf/a"))).toEqual([3, 4]);
    expect(ids(view.under("/"))).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(view.under("/hf/a/be")).toEqual([]);
  });

  test("whatever is mounted, each question is answered as by its plain words", () => {
    const name = fc.constantFrom("a", "ab", "b", "a//deleted");
    const place = fc.array(name, { maxLength: 4 }).map((names) => `/${names.join("/")}`);
    const below = (path: string, directory: string) =>
      path === directory || path.startsWith(directory === "/" ? "/" : `${directory}/`);
    fc.assert(
      fc.property(fc.array(place, { maxLength: 12 }), place, (places, asked) => {
        const found = places.map((path, id) => line({ id, path }));
        const all = mountinfoView(found);
        expect(all.at(asked)).toEqual(found.filter(({ path }) => path === asked));
        expect(all.under(asked)).toEqual(found.filter(({ path }) => below(path, asked)));
        const above = found.filter(({ path }) => path !== asked && below(asked, path));
        const longest = Math.max(0, ...above.map(({ path }) => path.length));
        expect(all.covering(asked)).toEqual(above.filter(({ path }) => path.length === longest));
      }),
    );
  });

  test("a mark finds its device's mounts of that directory and below, the deleted too, and no name that only begins like it", () => {
    expect(ids(view.sharing([{ device: "9:1", root: "/v" }]))).toEqual([3, 5, 7]);
    expect(ids(view.sharing([{ device: "9:1", root: "/" }]))).toEqual([3, 5, 6, 7]);
    expect(view.sharing([{ device: "9:3", root: "/" }])).toEqual([]);
  });

  test("the marks of paths are those of all that lies there", () => {
    expect(marksUnder(view, ["/hf/a", "/gone"])).toEqual([
      { device: "9:1", root: "/v" },
      { device: "9:2", root: "/" },
    ]);
  });

  test("a mount is seen at its path; one that was mounted over from above is not", () => {
    expect(seenAt(view, "/hf/a")?.id).toBe(3);
    expect(seenAt(view, "/hf/none")).toBeUndefined();
    const hidden = [...lines, line({ id: 8, parent: 2, path: "/hf/x" }), line({ id: 9, parent: 1, path: "/hf" })];
    const covered = { ...mountinfoView(hidden.filter(({ id }) => id !== 2)), foreign: () => [] };
    expect(seenAt(covered, "/hf/x")).toBeUndefined();
    // Propagation shows one mount twice, once on each peer: that is no cover.
    const twice = {
      ...mountinfoView([
        ...lines,
        line({ id: 8, parent: 2, path: "/hf/x" }),
        line({ id: 9, parent: 1, path: "/hf/x" }),
      ]),
      foreign: () => [],
    };
    expect(seenAt(twice, "/hf/x")).toBeDefined();
  });

  test("stacked mounts: the topmost is the one that is seen", () => {
    const stacked = {
      ...mountinfoView([...lines, line({ id: 8, parent: 3, path: "/hf/a", device: "9:9" })]),
      foreign: () => [],
    };
    expect(seenAt(stacked, "/hf/a")?.id).toBe(8);
  });

  test("left over: at the paths always; by mark only for a volume of one node, without what was there before", () => {
    const marks = [{ device: "9:1", root: "/v" }];
    const at = (singleNode: boolean, before: number[]) =>
      leftovers(view, { paths: ["/hf/ab"], marks, before, singleNode }).map(({ path }) => path);
    expect(at(false, [])).toEqual(["/hf/ab"]);
    expect(at(true, [])).toEqual(["/hf/ab", "/hf/a", "/gone"]);
    expect(at(true, [3, 7])).toEqual(["/hf/ab"]);
  });

  test("a mark that the host itself showed before is not looked for elsewhere", () => {
    const foreign = [{ line: line({ id: 90, device: "9:1", root: "/v", path: "/c" }), pid: 5, command: "x" }];
    const wide = {
      ...mountinfoView(lines),
      foreign: (marks: readonly unknown[]) => (marks.length === 0 ? [] : foreign),
    };
    const marks = [{ device: "9:1", root: "/v" }];
    const wanted = { paths: [], marks, singleNode: true };
    expect(leftovers(wide, { ...wanted, before: [3, 5, 7] })).toEqual([]);
    expect(leftovers(wide, { ...wanted, before: [] })).toContainEqual({ path: "/c", pid: 5, command: "x" });
  });

  test("strays are publications that nobody explains", () => {
    const paths = createHostPaths("/hf", (text) => Buffer.from(text).toString("hex").padEnd(32, "0")).of("p", "x");
    const stray = line({ id: 20, path: `${paths.target("b")}/deep` });
    const own = line({ id: 21, path: paths.target("a") });
    const there = { ...mountinfoView([...lines, stray, own]), foreign: () => [] };
    expect(strays(there, paths, [paths.target("a")])).toEqual([stray]);
  });
});

test("paths hold hashes only, and never more than CSI's 128 bytes", () => {
  fc.assert(
    fc.property(
      fc.string({ maxLength: 54 }),
      fc.string(),
      fc.string(),
      fc.string(),
      (root, plugin, externalId, claim) => {
        const at = `/${"r".repeat(Math.min(53, root.length))}`;
        const paths = createHostPaths(at, (text) => Buffer.from(text, "utf8").toString("hex").padEnd(64, "0")).of(
          plugin,
          externalId,
        );
        for (const path of [paths.staging, paths.target(claim)]) {
          expect(Buffer.byteLength(path)).toBeLessThanOrEqual(128);
          expect(path).toMatch(/^\/r*\/(staging\/[0-9a-f]{32}|publish\/[0-9a-f]{32}\/[0-9a-f]{32})$/);
        }
      },
    ),
  );
});
