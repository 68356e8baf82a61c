/** How scripts/bundle makes a package, on a tree of four files, and how such a package starts. What is shipped is tried in test/full/bundle.test.ts. */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { refuseLeftOut } from "../scripts/bundle/hidden-requires.ts";
import { makeLib } from "../scripts/bundle/make-lib.ts";
import { licenceTexts } from "../scripts/docs/licence-texts.ts";

const repo = path.resolve(import.meta.dirname, "..");

const main = `import { readText } from "./deep/read-text.ts";

const { named } = await import("common");
const started: URL = new URL("./main.ts", import.meta.url);
console.log(readText(), named(), started.pathname.split("/").slice(-2).join("/"));
if (process.argv[2] === "fail") readText("no such file");
`;
const readText = `import { readFileSync } from "node:fs";

interface Unused {
  readonly line: string;
}

export const readText = (file = "text.txt"): Unused["line"] => {
  if (file !== "text.txt")
    throw new Error("there is no " + file);
  return readFileSync(new URL("./text.txt", import.meta.url), "utf8");
};
`;

let tree: string;
beforeEach(() => {
  tree = mkdtempSync(path.join(tmpdir(), "hf-"));
  chmodSync(tree, 0o755);
  for (const folder of ["src/deep", "node_modules/common", "node_modules/modules"])
    mkdirSync(path.join(tree, folder), { recursive: true });
  write("src/main.ts", main);
  write("src/deep/read-text.ts", readText);
  write("src/deep/text.txt", "read");
  // As a program of TypeScript leaves it: no bundler finds this name without running it.
  write(
    "node_modules/common/index.js",
    'Object.defineProperty(exports, "__esModule", { value: true });\nexports.named = () => "named";\n',
  );
});
afterEach(() => rmSync(tree, { recursive: true }));

const write = (file: string, text: string): void => writeFileSync(path.join(tree, file), text);

const names = ["holdfast", "holdfast-controller", "holdfast-node-agent", "holdfast-local-driver"];

const bundle = async (): Promise<readonly string[]> => {
  cpSync(path.join(repo, "deploy/package"), path.join(tree, "package"), { recursive: true });
  write("package/package.json", '{ "type": "module" }');
  const programs = Object.fromEntries(names.map((name, at) => [name, at === 0 ? "src/main.ts" : `src/main-${at}.ts`]));
  for (const at of [1, 2, 3]) write(`src/main-${at}.ts`, `export const number = ${at};\n`);
  return await makeLib({ root: tree, programs, lib: path.join(tree, "package/lib"), node: 24 });
};

interface Start {
  readonly user?: number;
  readonly args?: readonly string[];
}

const start = (program: string, { user, args = [] }: Start = {}) => {
  const command = [process.execPath, path.join(tree, "package/bin", program), ...args];
  const [file = "", ...rest] =
    user === undefined ? command : ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups", ...command];
  return spawnSync(file, rest, {
    encoding: "utf8",
    env: { PATH: process.env["PATH"] ?? "", TMPDIR: tree, NODE_DEBUG_NATIVE: "COMPILE_CACHE" },
  });
};

describe("a bundle", () => {
  test("finds what the code reads and starts, and the names of a package in CommonJS that is imported lazily", async () => {
    expect(await bundle()).toEqual(
      expect.arrayContaining(["src/main.ts", "src/deep/read-text.ts", "node_modules/common/index.js"]),
    );
    expect(start("holdfast.mjs").stdout).toContain("read named bin/holdfast.mjs\n");
  });

  test("has what a package of modules requires under another name, and is refused without it", async () => {
    const runtime =
      'import { createRequire } from "node:module";\nexport const __require = createRequire(import.meta.url);\n';
    const lazy = (name: string): string =>
      `import { __require } from "./runtime.mjs";\nexport const named = () => __require("${name}").named();\n`;
    write("node_modules/modules/runtime.mjs", runtime);
    write("node_modules/modules/index.mjs", lazy("common"));
    write("node_modules/modules/package.json", '{ "exports": "./index.mjs" }');
    write("src/main.ts", main.replace('import("common")', 'import("modules")'));
    expect(await bundle()).toContain("node_modules/common/index.js");
    rmSync(path.join(tree, "node_modules"), { recursive: true });
    expect(start("holdfast.mjs").stdout).toContain("read named");
    expect(() => refuseLeftOut("main.js", 'const { named } = __require2("gone");')).toThrow("leaves gone out");
    expect(() => refuseLeftOut("main.js", '__require("node:fs"); __require("supports-color");')).not.toThrow();
  });

  test("names the sources in a stack", async () => {
    await bundle();
    const { status, stderr } = start("holdfast.mjs", { args: ["fail"] });
    expect(status).toBe(1);
    expect(stderr).toContain("Error: there is no no such file\n    at readText (src/deep/read-text.ts:9)\n");
    expect(stderr).toContain("at src/main.ts:6\n");
  });

  test.each([
    ["import.meta.dirname", "src/deep/read-text.ts uses import.meta in another way"],
    ['new URL("./gone.txt", import.meta.url)', "src/deep/read-text.ts names src/deep/gone.txt, which is no program"],
    ['new URL("./other.ts", import.meta.url)', "src/deep/read-text.ts names src/deep/other.ts, which is no program"],
    ['new URL("../text.txt", import.meta.url)', "two files that the bundle copies have the name text.txt"],
  ])("is refused where the code has %s", async (written, why) => {
    write("src/deep/other.ts", "");
    write("src/text.txt", "");
    write("src/deep/read-text.ts", `${readText}console.log(${written});\n`);
    await expect(bundle()).rejects.toThrow(why);
  });

  test("has no code of a package that is not shipped, and the licences of those that are", () => {
    const tool = "node_modules/vitest/dist/index.js";
    expect(() => licenceTexts(repo, ["packages/cli/src/main.ts", tool])).toThrow(`the bundle has ${tool}`);
    const texts = licenceTexts(repo, ["node_modules/@grpc/grpc-js/build/src/index.js"]);
    const of = (name: string) => texts.split(`${"-".repeat(80)}\n`).find((part) => part.startsWith(`\n${name} `)) ?? "";
    expect(of("ioredis")).toMatch(/\(MIT\)\n[\s\S]*Permission is hereby granted/);
    expect(of("@bufbuild/protobuf")).toMatch(/Apache License[\s\S]*Redistributions of source code/);
  });
});

describe("the compile cache of a package", () => {
  const cacheOf = (output: string): readonly string[] => [
    ...new Set(output.match(/(?<=^\[compile cache\] V8 code cache for ESM )\S+ was \w+/gm) ?? []),
  ];

  test("is none until it is made: Node keeps nothing in /tmp", async () => {
    await bundle();
    const before = readdirSync(tree);
    expect(start("holdfast.mjs").stderr).not.toContain("compile cache");
    expect(readdirSync(tree)).toEqual(before);
  });

  test.runIf(process.getuid?.() === 0)(
    "serves its owner and the users that are named, and no start adds to it",
    async () => {
      await bundle();
      expect(start("holdfast-compile-cache.mjs", { args: ["65533"] })).toMatchObject({ status: 0 });
      const kept = () => readdirSync(path.join(tree, "package/compile-cache"), { recursive: true }).sort();
      const made = kept();
      for (const user of [undefined, 65_533]) {
        const files = cacheOf(start("holdfast.mjs", user === undefined ? {} : { user }).stderr);
        expect(files.length).toBeGreaterThan(1);
        expect(files.filter((file) => !file.endsWith(" was accepted"))).toEqual([]);
      }
      // Nobody else is served, and nobody else is kept from starting.
      expect(start("holdfast.mjs", { user: 65_532 })).toMatchObject({
        status: 0,
        stdout: expect.stringContaining("read"),
      });
      expect(kept()).toEqual(made);
    },
  );
});
