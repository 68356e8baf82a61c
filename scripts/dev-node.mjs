// The Node that everything runs on: 26 from node_modules, else the user's own when it is new enough to run TypeScript.
import { spawnSync } from "node:child_process";
import { existsSync, lstatSync, symlinkSync } from "node:fs";
import path from "node:path";
import { bin, cacheBin, modules } from "./paths.mjs";
import { Problem } from "./problem.mjs";

/** The first version that strips types without a flag and carries what the code uses. */
const oldest = 24;

/** Where npm puts it; `.bin/node` is a link to it. */
const packaged = path.join(modules, `node-${process.platform}-${process.arch}`, "bin", "node");

/** @returns {{node: string, env: NodeJS.ProcessEnv}} the runtime, and an environment in which `node` means it */
export function devNode() {
  const env = { ...process.env, PATH: [bin, cacheBin, process.env.PATH].join(path.delimiter) };
  // Run, not looked at: on a libc it was not built for (Alpine) the file is there and does not start.
  if (answerOf(packaged).version >= oldest) {
    linkPackaged();
    return { node: packaged, env };
  }
  const own = ownNode();
  if (own !== undefined) return { node: own, env };
  throw new Problem(
    `${whyNotPackaged()}, and the one that runs this is ${process.version}. Install Node ${oldest} or newer and run the same command again.`,
  );
}

/**
 * A library that the packaged Node waits for and this system lacks, as the loader names it: it names one at a time.
 * None where the user's own Node can do the work.
 */
export function missingLibrary() {
  const library = libraryIn(answerOf(packaged).errors);
  return library === undefined || ownNode() !== undefined ? undefined : library;
}

/** @param {string} errors what the loader wrote */
export const libraryIn = (errors) => /error while loading shared libraries: ([^\s:]+):/.exec(errors)?.[1];

/**
 * npm 10, which comes with Node 20, takes `.bin/node` away again together with the Node packages of other platforms:
 * each of them has a program of that name. Only a Node that starts is linked: it stands before the user's own on the
 * PATH of npm. (npm 11 links it in any case: package.json names the Node that runs npm.)
 */
function linkPackaged() {
  const link = path.join(bin, "node");
  if (lstatSync(link, { throwIfNoEntry: false }) !== undefined) return;
  try {
    symlinkSync(path.relative(bin, packaged), link);
  } catch (error) {
    // Another process was faster, or the tree is not this user's.
    if (!["EEXIST", "EACCES", "EROFS"].includes(error.code)) throw error;
  }
}

const ownNode = () => ["node", process.execPath].find((candidate) => answerOf(candidate).version >= oldest);

function whyNotPackaged() {
  if (!existsSync(packaged)) return `there is no packaged Node for ${process.platform}-${process.arch}`;
  const [line = "it was built for another C library"] = answerOf(packaged).errors.split("\n").filter(Boolean);
  return `the packaged Node for ${process.platform}-${process.arch} does not start (${line})`;
}

function answerOf(node) {
  const { status, stdout, stderr } = spawnSync(node, ["--version"], { encoding: "utf8" });
  return { version: status === 0 ? Number(/^v(\d+)/.exec(stdout)?.[1] ?? 0) : 0, errors: stderr ?? "" };
}
