#!/usr/bin/env node
// Compiles the package once, where it lies, for the Node that runs this: `node bin/holdfast-compile-cache.mjs [UID…]`, as its owner. Programs of
// that owner start from it, and those of the users named. Node ignores what another version of it made.
import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import module from "node:module";
import path from "node:path";
import { compileCache } from "../lib/start.mjs";

const bin = import.meta.dirname;
const lib = path.join(bin, "../lib");
const programs = readdirSync(bin).filter((file) => file !== path.basename(import.meta.filename));

rmSync(compileCache, { recursive: true, force: true });
module.enableCompileCache(compileCache);
/** What runs a service or a command as soon as it is loaded: the programs below load it. */
const runs = (file) => file.startsWith("serve-main-") || programs.includes(file.replace(/\.js$/, ".mjs"));
for (const file of readdirSync(lib)) if (file.endsWith(".js") && !runs(file)) await import(path.join(lib, file));
module.flushCompileCache();

// All of a program is loaded before it finds that it has no settings, or no such word.
const ended = [0, 64, 78];
for (const program of programs) {
  const { status, stderr } = spawnSync(process.execPath, [path.join(bin, program), "--version"], {
    env: {},
    encoding: "utf8",
  });
  if (!ended.includes(status)) throw new Error(`${program} did not start: ${stderr}`);
}

// Node keeps a folder for each user, and makes files that nobody else reads.
const [folder = ""] = readdirSync(compileCache);
for (const file of readdirSync(path.join(compileCache, folder)))
  chmodSync(path.join(compileCache, folder, file), 0o644);
for (const uid of process.argv.slice(2))
  if (!folder.endsWith(`-${uid}`)) symlinkSync(folder, path.join(compileCache, folder.replace(/\d+$/, uid)));
