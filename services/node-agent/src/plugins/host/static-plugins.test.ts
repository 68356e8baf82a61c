import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { parseStaticPlugins, readStaticPlugins } from "./static-plugins.ts";

const parse = (plugins: unknown) => parseStaticPlugins(JSON.stringify({ plugins }), "/run/p");

describe("plugins.json", () => {
  test("says what a socket cannot: role, name, paths and how many calls", async () => {
    const dir = await mkdtemp(path.join(tmpdir(), "hfs-"));
    onTestFinished(() => rm(dir, { recursive: true }));
    const plugins = [
      { socket: "a.sock", id: "a.example.com", role: "monolith", publish_dir: "/local/csi", max_concurrent_calls: 8 },
      { socket: "b/csi.sock" },
    ];
    await writeFile(path.join(dir, "plugins.json"), JSON.stringify({ plugins }));
    const known = await readStaticPlugins(dir);
    expect(known.describe(path.join(dir, "a.sock"))).toEqual({
      role: "monolith",
      expectedName: "a.example.com",
      maxInFlight: 8,
    });
    expect(known.publishDirOf(path.join(dir, "a.sock"))).toBe("/local/csi");
    expect(known.describe(path.join(dir, "b", "csi.sock"))).toMatchObject({ role: "node" });
    expect(known.publishDirOf(path.join(dir, "b", "csi.sock"))).toBeUndefined();
    expect(known.describe(path.join(dir, "c.sock"))).toBeUndefined();
  });

  test("may be missing, and so may the directory", async () => {
    const dir = await mkdtemp(path.join(tmpdir(), "hfs-"));
    onTestFinished(() => rm(dir, { recursive: true }));
    expect((await readStaticPlugins(dir)).describe("/x.sock")).toBeUndefined();
    expect((await readStaticPlugins(path.join(dir, "none"))).describe("/x.sock")).toBeUndefined();
    await mkdir(path.join(dir, "plugins.json"));
    await expect(readStaticPlugins(dir)).rejects.toThrow("EISDIR");
  });

  test("every mistake is told at once, with the file and the entry", () => {
    const wrong = () =>
      parse([
        { socket: "../a.sock", id: "-a", role: "both", publish_dir: "csi", max_concurrent_calls: 0, colour: "red" },
        "b",
        { socket: "c.sock" },
        { socket: "c.sock" },
      ]);
    expect(wrong).toThrow("/run/p/plugins.json: ");
    for (const part of [
      "plugins[0] has a field colour that nobody knows",
      'plugins[0] socket has to be "<name>.sock" or "<name>/csi.sock"',
      "plugins[0] id is no name of a plugin",
      "plugins[0] role has to be controller, node or monolith",
      "plugins[0] publish_dir has to be a plain absolute path",
      "plugins[0] max_concurrent_calls has to be a number from 1 to 64",
      "plugins[1] is no object",
      "plugins[3] names /run/p/c.sock a second time",
    ])
      expect(wrong).toThrow(part);
    for (const socket of ["..", "../csi.sock", "a/../../csi.sock", "/a.sock", ".sock", "a", "a/b.sock"])
      expect(() => parse([{ socket }]), socket).toThrow("socket has to be");
  });

  test("whatever the file holds, it is read or refused with its name, and never leads out of the directory", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.jsonValue().map((it) => JSON.stringify({ plugins: [it] })),
        ),
        (text) => {
          try {
            for (const { socketPath } of parseStaticPlugins(text, "/run/p"))
              expect(socketPath.startsWith("/run/p/")).toBe(true);
          } catch (error) {
            expect(String(error)).toContain("/run/p/plugins.json: ");
          }
        },
      ),
    );
  });
});
