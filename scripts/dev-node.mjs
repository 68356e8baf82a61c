// The Node that everything runs on: 26 from node_modules, else the user's own when it is new enough to run TypeScript.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { bin, cacheBin } from "./paths.mjs";
import { Problem } from "./problem.mjs";

/** The first version that strips types without a flag and carries what the code uses. */
const oldest = 24;

/** @returns {{node: string, env: NodeJS.ProcessEnv}} the runtime, and an environment in which `node` means it */
export function devNode() {
  const env = { ...process.env, PATH: [bin, cacheBin, process.env.PATH].join(path.delimiter) };
  const packaged = path.join(bin, "node");
  // Run, not looked at: on a libc it was not built for (Alpine) the file is there and does not start.
  if (versionOf(packaged) >= oldest) return { node: packaged, env };
  const own = ["node", process.execPath].find((candidate) => versionOf(candidate) >= oldest);
  if (own !== undefined) return { node: own, env };
  throw new Problem(
    `there is no packaged Node for ${process.platform}-${process.arch}, and the one that runs this is ${process.version}. Install Node ${oldest} or newer and run the same command again.`,
  );
}

function versionOf(node) {
  const answer = spawnSync(node, ["--version"], { encoding: "utf8" });
  return answer.status === 0 ? Number(/^v(\d+)/.exec(answer.stdout)?.[1] ?? 0) : 0;
}
