import { spawnSync } from "node:child_process";

/** The start of a command line that runs the rest as a user without rights. */
export const asNobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] as const;

/** Such a user may read this tree, as it may not below the home of root. */
export const nobodyReadsTree =
  process.getuid?.() === 0 &&
  spawnSync(asNobody[0], [...asNobody.slice(1), "cat", import.meta.filename], { stdio: "ignore" }).status === 0;
if (!nobodyReadsTree)
  console.warn("SKIPPED: what a user without rights meets: this is not root, or nobody else may read this tree");
