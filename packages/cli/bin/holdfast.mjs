#!/usr/bin/env node
// Runs on whatever Node is there: hands over to one that runs TypeScript where it is too old itself.
import { spawnSync } from "node:child_process";
import os from "node:os";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const [major] = process.versions.node.split(".").map(Number);

if (major >= 24) {
  await import(main);
} else {
  const { devNode } = await import("../../../scripts/dev-node.mjs");
  const { status, signal } = spawnSync(devNode().node, [main, ...process.argv.slice(2)], { stdio: "inherit" });
  process.exitCode = signal === null ? (status ?? 1) : 128 + os.constants.signals[signal];
}
