/** What a start of the command line loads: each module costs every command, and the generated ones most. */
import { spawnSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";
import { childEnvironment } from "../support/child-environment.ts";

const program = path.resolve(import.meta.dirname, "../../packages/cli/bin/holdfast.mjs");
const tellLoaded = `data:text/javascript,${encodeURIComponent(
  'import { registerHooks } from "node:module"; registerHooks({ load: (url, context, next) => (process._rawDebug("loads " + url), next(url, context)) });',
)}`;

/** Packages, and files of the tree, that the run loads. */
const loadedBy = (...args: readonly string[]): ReadonlySet<string> => {
  const { stderr } = spawnSync(process.execPath, ["--import", tellLoaded, program, ...args], {
    encoding: "utf8",
    env: { ...childEnvironment(), HOME: "/nonexistent" },
  });
  const names = [
    ...stderr.matchAll(/^loads file:.*?\/(?:node_modules\/((?:@[^/]+\/)?[^/]+)\/|((?:packages|services)\/\S+))/gm),
  ];
  return new Set(names.map(([, name = "", file = ""]) => name || file));
};

const generated = (files: ReadonlySet<string>): readonly string[] =>
  [...files].filter((file) => file.includes("/gen/holdfast/")).map((file) => path.basename(file));

test("--version loads neither gRPC, nor generated code, nor a command", () => {
  const loaded = loadedBy("--version");
  expect(loaded).toContain("packages/cli/src/run-cli.ts");
  for (const name of ["@grpc/grpc-js", "nice-grpc", "yaml", "pino", "@bufbuild/protobuf"])
    expect(loaded).not.toContain(name);
  expect(generated(loaded)).toEqual([]);
});

test("volume list loads one service and what its messages need, no log and no certificates", () => {
  const loaded = loadedBy("volume", "list", "--address", "127.0.0.1:1", "--timeout", "1s");
  expect(loaded).toContain("@grpc/grpc-js");
  expect(generated(loaded).toSorted()).toEqual(["claim.ts", "common.ts", "volume.ts"]);
  for (const name of [
    "yaml",
    "pino",
    "packages/shared/src/trust/certificate-keeper.ts",
    "packages/cli/src/spec/check-spec.ts",
  ])
    expect(loaded).not.toContain(name);
});
