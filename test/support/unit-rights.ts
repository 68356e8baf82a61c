import { readFileSync } from "node:fs";
import path from "node:path";

export type UnitName = "controller" | "node-agent" | "local-driver";

const folder = path.resolve(import.meta.dirname, "../../deploy/systemd");

export const readUnit = (name: UnitName): string => readFileSync(path.join(folder, `holdfast-${name}.service`), "utf8");

/** CAP_SYS_ADMIN → sys_admin, as setpriv has it. */
export const capabilitiesOf = (unit: string): readonly string[] =>
  (/^CapabilityBoundingSet=(.*)$/m.exec(unit)?.[1] ?? "")
    .split(" ")
    .filter((word) => word !== "")
    .map((word) => word.replace(/^CAP_/, "").toLowerCase());

/** The start of a command line that runs the rest with the capabilities of the unit, no way to more, and its limit of core files. What the unit forbids otherwise is not forbidden. */
export const unitRights = (name: UnitName): readonly [string, ...string[]] => [
  "prlimit",
  `--core=${/^LimitCORE=(\d+)$/m.exec(readUnit(name))?.[1] ?? "unlimited"}`,
  "setpriv",
  "--no-new-privs",
  `--bounding-set=${["-all", ...capabilitiesOf(readUnit(name)).map((word) => `+${word}`)].join(",")}`,
  "--",
];
