/** What is durable of a plugin beside its instances: what operators said of it, and what each of its versions could do. */
import type { Tri } from "@holdfast/model/tri";
import { defaultProfile, type PluginProfile, sameProfile } from "./plugin-profile.ts";

/** `family:NAME`; what is missing is not known. */
export type Capabilities = Readonly<Record<string, Tri>>;

export interface VersionMemory {
  readonly version: string;
  /** Only what was told: "yes" and "no". */
  readonly capabilities: Capabilities;
  readonly toldAt: number;
}

/** A node that had a node half has none, and nobody said that it shall have none. */
export interface MissedInstance {
  readonly since: number;
  readonly version: string;
}

/** Where the last instance of all went, and when. */
export interface LastSeen {
  /** Empty: beside a controller. */
  readonly node: string;
  readonly at: number;
}

export interface PluginRecord {
  readonly name: string;
  /** Absent while nobody said anything: the defaults hold, also those of later versions of Holdfast. */
  readonly profile?: PluginProfile;
  /** The latest first. */
  readonly versions: readonly VersionMemory[];
  /** Since when there is neither an instance nor a volume nor a profile. */
  readonly emptySince?: number;
  /** By node. */
  readonly missed?: Readonly<Record<string, MissedInstance>>;
  readonly lastSeen?: LastSeen;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly changedBy: { readonly who: string; readonly why: string };
}

/** Enough for a rolling change and the way back. */
const rememberedVersions = 4;

export const newPluginRecord = (name: string, now: number): PluginRecord => ({
  name,
  versions: [],
  createdAt: now,
  updatedAt: now,
  changedBy: { who: "", why: "" },
});

/** The profile that only repeats the defaults is none. */
export const withProfile = (record: PluginRecord, profile: PluginProfile): PluginRecord => {
  const { profile: _before, emptySince: _empty, ...rest } = record;
  return sameProfile(profile, defaultProfile) ? rest : { ...rest, profile };
};

const told = (capabilities: Capabilities): Capabilities =>
  Object.fromEntries(
    Object.entries(capabilities)
      .filter(([, standing]) => standing !== "unknown")
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );

const same = (a: Capabilities, b: Capabilities): boolean => JSON.stringify(a) === JSON.stringify(b);

/** What a version told, in addition to what its other half told; the same record if it is no news. */
export const withTold = (
  record: PluginRecord,
  version: string,
  capabilities: Capabilities,
  now: number,
): PluginRecord => {
  const before = record.versions.find((one) => one.version === version);
  const next = told({ ...before?.capabilities, ...told(capabilities) });
  if (Object.keys(next).length === 0 || (before !== undefined && same(before.capabilities, next))) return record;
  const others = record.versions.filter((one) => one !== before);
  const memory: VersionMemory = { version, capabilities: next, toldAt: now };
  return { ...record, versions: [memory, ...others].slice(0, rememberedVersions), updatedAt: now };
};

/** What a version told last; with "" what the latest did. */
export const rememberedOf = (record: PluginRecord | undefined, version: string): Capabilities =>
  (version === "" ? record?.versions[0] : record?.versions.find((one) => one.version === version))?.capabilities ?? {};

/** What several instances of one version say together: where they differ nothing is known, and silence takes nothing away. */
export const agreedCapabilities = (said: readonly Capabilities[]): Capabilities => {
  const agreed: Record<string, Tri> = {};
  for (const one of said)
    for (const [name, standing] of Object.entries(one)) {
      if (standing === "unknown") continue;
      const before = agreed[name];
      agreed[name] = before === undefined || before === standing ? standing : "unknown";
    }
  return agreed;
};
