import { capabilityProblems, mutableProblems, usableOf } from "../domain/capability-problems.ts";
import { differing } from "../domain/differences.ts";
import { parseParameters } from "../domain/parameters.ts";
import type { VolumeOperations } from "../operations.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { knownVolume } from "./known-volume.ts";

/** Parameters may be left out; those that are given have to be those of the volume. */
export function createValidateCapabilities({
  host,
}: Pick<ControllerParts, "host">): VolumeOperations["validateCapabilities"] {
  return async (id, asked) => {
    const volume = knownVolume(host, id);
    const usable = usableOf(volume);
    const { value, violations } = parseParameters(asked.parameters, asked.mutableParameters);
    const given = Object.keys(value.fixed).length === 0 ? {} : volume.parameters;
    const current = Object.fromEntries(Object.keys(value.mutable).map((key) => [key, volume.mutable[key] ?? ""]));
    const problems = [
      ...violations,
      ...asked.capabilities.flatMap((capability) => capabilityProblems(capability, usable)),
      ...differing("parameter", given, value.fixed),
      ...mutableProblems(value.mutable, usable),
      ...differing("mutable parameter", current, value.mutable),
    ];
    return problems.length === 0 ? undefined : [...new Set(problems)].join("; ");
  };
}
