#!/usr/bin/env node
// Runs on whatever Node is there: hands over to one that runs TypeScript where it is too old itself.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import os from "node:os";
import { fileURLToPath } from "node:url";

const here = (file) => fileURLToPath(new URL(`../../../${file}`, import.meta.url));
const main = here("packages/cli/src/main.ts");
const [major] = process.versions.node.split(".").map(Number);

/** Parts of the tree that are not in git, with the command that makes each. No install script makes them: images install with --ignore-scripts. */
const made = [
  { file: "node_modules", what: "the folder node_modules", command: "npm ci" },
  { file: "packages/shared/src/gen/image.binpb", what: "the generated code", command: "npm run generate" },
];
const missing = made.find(({ file }) => !existsSync(here(file)));

if (missing !== undefined) {
  process.stderr.write(
    `holdfast: ${missing.what} is missing; run this first: (cd ${here("")} && ${missing.command})\n`,
  );
  process.exitCode = 2;
} else if (major >= 24) {
  await import(main);
} else {
  const { devNode } = await import("../../../scripts/dev-node.mjs");
  const { status, signal } = spawnSync(devNode().node, [main, ...process.argv.slice(2)], { stdio: "inherit" });
  process.exitCode = signal === null ? (status ?? 1) : 128 + os.constants.signals[signal];
}
