import { capabilityProblems, usableOf } from "./capability-problems.ts";
import type { CreateVolumeInput } from "./create-volume-input.ts";
import type { DriverSettings } from "./driver-settings.ts";
import { mayBeHere } from "./is-here.ts";
import { parseParameters, withMutable } from "./parameters.ts";
import type { VolumeRecord } from "./records.ts";

type Values = Readonly<Record<string, string>>;

/** Where a volume differs from the one that is asked for under its name; empty: it is the one. */
export function differences(
  volume: VolumeRecord,
  asked: CreateVolumeInput,
  settings: DriverSettings,
): readonly string[] {
  const { value } = parseParameters(asked.parameters, asked.mutableParameters);
  const { requiredBytes, limitBytes } = asked.capacity;
  const found: string[] = [];
  if (requiredBytes > volume.capacityBytes)
    found.push(`capacity: it has ${volume.capacityBytes} bytes, and ${requiredBytes} are required`);
  if (limitBytes > 0n && limitBytes < volume.capacityBytes)
    found.push(`capacity: it has ${volume.capacityBytes} bytes, and the limit is ${limitBytes}`);
  if (volume.source?.kind !== asked.source?.kind || volume.source?.id !== asked.source?.id)
    found.push(`source: it was made from ${sourceName(volume.source)}, and not from ${sourceName(asked.source)}`);
  found.push(...differing("parameter", volume.parameters, value.fixed));
  for (const capability of asked.capabilities)
    found.push(...capabilityProblems(capability, usableOf(volume)).map((problem) => `capability: ${problem}`));
  if (!mayBeHere(asked.requisite, settings)) found.push(`topology: it is on node ${settings.nodeId} alone`);
  // ModifyVolume may have added others since: those that are asked for have to be as asked.
  const wanted = Object.entries(withMutable({}, value.mutable));
  for (const [key, each] of wanted) {
    if (volume.mutable[key] === each) continue;
    found.push(`mutable parameter ${key}: it has ${said(volume.mutable[key])}, asked is ${said(each)}`);
  }
  return [...new Set(found)];
}

export function differing(what: string, before: Values, now: Values): readonly string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(now)])]
    .toSorted()
    .filter((key) => before[key] !== now[key])
    .map((key) => `${what} ${key}: first ${said(before[key])}, now ${said(now[key])}`);
}

const said = (value: string | undefined): string => (value === undefined ? "none" : JSON.stringify(value));

const sourceName = (source: VolumeRecord["source"]): string =>
  source === undefined ? "nothing" : `${source.kind} ${source.id}`;
