import { expect, it } from "vitest";
import { coveringMount, rootOf } from "./covering-mount.ts";

const line = (id: number, parent: number, path: string, root = "/") => ({
  ...{ id, parent, path, root, device: `8:${id}`, fsType: "ext4", source: "x", options: ["rw"], superOptions: "rw" },
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
