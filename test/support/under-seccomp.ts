import { spawnSync } from "node:child_process";
import path from "node:path";
import { capabilitiesOf, readUnit, type UnitName } from "./unit-rights.ts";

const root = path.resolve(import.meta.dirname, "../..");
export const seccompProfile = "deploy/compose/seccomp.json";

/** Debian's own Python: the module comes with a package of Debian's (python3-seccomp). */
const python = "/usr/bin/python3";
const script = path.join(import.meta.dirname, "run-under-seccomp.py");
export const canLoadSeccomp = spawnSync(python, ["-c", "import seccomp"]).status === 0;

/** The start of a command line that runs the rest under the profile of the compose file. `capabilities` are the container's. */
export const underSeccomp = (capabilities: readonly string[]): readonly [string, ...string[]] => {
  const held = capabilities.map((name) => `CAP_${name.toUpperCase()}`).join(",");
  return [python, script, path.join(root, seccompProfile), held === "" ? "-" : held];
};

/** The same for a service; nothing for one that has no profile, or where none can be loaded. */
export const seccompOf = (name: UnitName): readonly string[] =>
  canLoadSeccomp && name !== "local-driver" ? underSeccomp(capabilitiesOf(readUnit(name))) : [];
