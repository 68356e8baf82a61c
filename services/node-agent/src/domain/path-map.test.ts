import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createPathMap, isPlainPath, sameTree } from "./path-map.ts";
import { createHostPaths, maxRootBytes } from "./paths.ts";

const component = fc.stringMatching(/^[A-Za-z0-9._-]{1,12}$/).filter((part) => part !== "." && part !== "..");
const plain = fc.array(component, { minLength: 1, maxLength: 5 }).map((parts) => `/${parts.join("/")}`);

describe("paths of a plugin's container", () => {
  test("there and back again is the same path, and nothing below the root is lost", () => {
    fc.assert(
      fc.property(plain, plain, fc.array(component, { maxLength: 4 }), (host, container, below) => {
        const map = createPathMap(host, container);
        const at = [host, ...below].join("/");
        const seen = map.toPlugin(at) ?? "";
        expect(seen).toBe([container, ...below].join("/"));
        expect(map.toHost(seen)).toBe(at);
        expect(isPlainPath(seen)).toBe(true);
      }),
    );
  });

  test("a path outside of the root has no name in the container, a sibling with the same beginning neither", () => {
    const map = createPathMap("/var/lib/hf", "/local/csi");
    for (const path of ["/var/lib/hf2/x", "/var/lib", "/", "", "relative", "/var/lib/hf/../secret"])
      expect(map.toPlugin(path)).toBeUndefined();
    expect(map.toHost("/local/csi-2/x")).toBeUndefined();
    expect(map.toPlugin("/var/lib/hf")).toBe("/local/csi");
  });

  test("what the agent sends stays within 128 bytes under every root that is allowed", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: maxRootBytes - 1 }), fc.string(), fc.string(), (length, id, claim) => {
        const container = `/${"c".repeat(length)}`;
        const hash = () => "0123456789abcdef".repeat(4);
        const paths = createHostPaths("/var/lib/holdfast/mounts", hash).of("p", id);
        const map = createPathMap("/var/lib/holdfast/mounts", container);
        for (const path of [paths.staging, paths.target(claim)])
          expect(Buffer.byteLength(map.toPlugin(path) ?? "x".repeat(999))).toBeLessThanOrEqual(128);
      }),
    );
  });

  test("with the host's own tree nothing is translated", () => {
    fc.assert(fc.property(plain, (path) => sameTree.toPlugin(path) === path && sameTree.toHost(path) === path));
  });

  test("plain paths", () => {
    for (const good of ["/csi", "/local/csi", "/a/.b/..c"]) expect(isPlainPath(good), good).toBe(true);
    for (const bad of ["", "/", "csi", "/csi/", "//csi", "/a//b", "/a/./b", "/a/..", "/a\n", "/a\u0000b", "/a\u0085b"])
      expect(isPlainPath(bad), JSON.stringify(bad)).toBe(false);
  });
});
