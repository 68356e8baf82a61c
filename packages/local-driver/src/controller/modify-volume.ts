import { mutableProblems, usableOf } from "../domain/capability-problems.ts";
import { DriverError } from "../domain/driver-error.ts";
import { parseMutable, withMutable } from "../domain/parameters.ts";
import type { VolumeOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { knownVolume } from "./known-volume.ts";

/** All or nothing, in one write. Mount options take effect at the next NodeStageVolume. */
export function createModifyVolume({ host }: Pick<ControllerParts, "host">): VolumeOperations["modifyVolume"] {
  return async (id, asked) => {
    const volume = knownVolume(host, id);
    const { value, violations } = parseMutable(asked);
    const problems = [...violations, ...mutableProblems(value, usableOf(volume))];
    if (problems.length > 0) throw new DriverError("INVALID_ARGUMENT", [...new Set(problems)].join("; "));
    const wanted = withMutable(volume.mutable, value);
    if (same(wanted, volume.mutable)) return;
    await host.state.volumes.change(id, (record) => ({ ...record, mutable: withMutable(record.mutable, value) }));
  };
}

const same = (a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean =>
  [...Object.keys(a), ...Object.keys(b)].every((key) => a[key] === b[key]);
