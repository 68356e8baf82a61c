import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { Violation } from "../../domain/limits.ts";
import { placed } from "../../domain/plugin/instance-reach.ts";
import type { SnapshotRecord } from "../../domain/snapshot/snapshot.ts";
import type { AggregateRef, Commit } from "../../domain/store-types.ts";
import { coversOne, differingKeys } from "../../domain/volume/source-topology.ts";
import { type VolumeRef, type VolumeSource, volumeKey } from "../../domain/volume/volume.ts";
import { cutRef } from "../../records/snapshot-codec.ts";
import { volumeRef } from "../../records/volume/volume-codec.ts";
import type { CommandDeps } from "../command-deps.ts";
import { pluginCannot, sourceElsewhere, volumeNotAvailable, volumeNotFound } from "../errors.ts";
import type { CreateVolumeInput } from "../model.ts";
import { snapshotNotFound, snapshotNotReady } from "../snapshot/snapshot-errors.ts";

/** What a new volume is to be made from, with the revision that it was found fit at. */
export interface FoundSource {
  readonly source: VolumeSource;
  readonly plugin: string;
  readonly named: string;
  readonly at: { readonly ref: AggregateRef; readonly expectedRev: number };
}

type Deps = Pick<CommandDeps, "records" | "cuts" | "plugins">;

const findVolume = async ({ records }: Deps, ref: VolumeRef): Promise<FoundSource> => {
  const found = await records.get(ref);
  if (found === undefined) throw volumeNotFound(ref);
  const { volume, rev } = found;
  if (volume.state !== "AVAILABLE" || volume.goal === "absent") throw volumeNotAvailable(volume);
  const { uid, externalId, capacity, plugin } = volume;
  const sizeBytes = capacity.actual === 0 ? capacity.required : capacity.actual;
  return {
    source: { uid, externalId, sizeBytes, ...placed(volume) },
    plugin,
    named: `volume ${volumeKey(ref)}`,
    at: { ref: volumeRef(ref), expectedRev: rev },
  };
};

const findSnapshot = async ({ cuts, plugins }: Deps, ref: VolumeRef): Promise<FoundSource> => {
  const found = await cuts.get({ kind: "snapshot", ...ref });
  if (found?.record.kind !== "snapshot") throw snapshotNotFound(ref);
  const { record, rev } = found;
  if (record.state !== "READY" || record.goal === "absent") throw snapshotNotReady(record);
  return snapshotSource(plugins, record, rev);
};

/**
 * Where it can be used says something of a volume only where a volume can be asked for in a place: `accessibility_requirements` "SHALL NOT
 * be specified" otherwise, and no node of such a plugin has a place.
 */
export const snapshotSource = (plugins: Deps["plugins"], record: SnapshotRecord, rev: number): FoundSource => {
  const { namespace, id, uid, externalId, sizeBytes, plugin, accessible } = record;
  const usableFrom = plugins.snapshotFacts(plugin).volumePlaces === "no" ? undefined : record.usableFrom;
  return {
    source: {
      uid,
      externalId,
      sizeBytes,
      ...(accessible === undefined ? {} : { accessible }),
      ...(usableFrom === undefined ? {} : { usableFrom }),
    },
    plugin,
    named: `snapshot ${volumeKey({ namespace, id })}`,
    at: { ref: cutRef(record), expectedRev: rev },
  };
};

/** "A volume made from the snapshot must not be smaller than size_bytes", nor a clone than its source. */
export const tooSmall = (
  { capacity }: CreateVolumeInput,
  { source: { sizeBytes }, named }: FoundSource,
): readonly Violation[] =>
  (["required", "limit"] as const)
    .filter((bound) => capacity[bound] > 0 && capacity[bound] < sizeBytes)
    .map((bound) => ({
      field: `capacity.${bound}_bytes`,
      description: `must not be below the ${sizeBytes} bytes of ${named}`,
    }));

/** "The CO MUST use the topology information … to ensure that a desired volume can be provisioned from a given snapshot." */
const checkPlaces = (input: CreateVolumeInput, { source: { usableFrom = [] }, named }: FoundSource): void => {
  const { required } = input.topology;
  if (!coversOne(required, usableFrom)) throw sourceElsewhere(input, named, differingKeys(required, usableFrom));
};

/** Whether the plugin can make it, and where it is wanted. */
export const checkFit = ({ plugins }: Pick<Deps, "plugins">, input: CreateVolumeInput, found: FoundSource): void => {
  const { contentSource, plugin } = input;
  if (found.plugin !== plugin)
    throw pluginCannot(input, plugin, "content_source", `read ${found.named} of plugin ${found.plugin}`);
  const { clones, snapshots } = plugins.snapshotFacts(plugin);
  if ((contentSource.kind === "volume" ? clones : snapshots) === "no")
    throw pluginCannot(input, plugin, "content_source", `make a volume from another ${contentSource.kind}`);
  const small = tooSmall(input, found);
  if (small.length > 0) throw invalidArgument(small);
  checkPlaces(input, found);
};

/** The source of a volume that is asked for, checked; undefined when it is to be made from nothing. */
export const findContentSource = async (
  deps: Deps,
  input: CreateVolumeInput,
): Promise<{ readonly source: VolumeSource; readonly expects: NonNullable<Commit["expects"]> } | undefined> => {
  const { contentSource, namespace } = input;
  if (contentSource.kind === "none") return undefined;
  const ref = { namespace, id: contentSource.id };
  const found = await (contentSource.kind === "volume" ? findVolume(deps, ref) : findSnapshot(deps, ref));
  checkFit(deps, input, found);
  return { source: found.source, expects: [found.at] };
};
