import { differences } from "../domain/differences.ts";
import { DriverError } from "../domain/driver-error.ts";
import { mayBeHere } from "../domain/is-here.ts";
import { nameOf } from "../domain/name-of.ts";
import { parseParameters } from "../domain/parameters.ts";
import type { ContentSource, SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import { planBytes, planKind } from "../domain/volume-plan.ts";
import type { CreateVolumeInput, VolumeOperations } from "../operations.ts";
import type { ContentPaths } from "../ports.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { copyContents } from "./copy-contents.ts";
import { duringQuiet } from "./during-quiet.ts";
import { bytesOf, mustBeSound } from "./sound-image.ts";

type Source = VolumeRecord | SnapshotRecord;

export function createCreateVolume({ host, settings, room, cut }: ControllerParts): VolumeOperations["createVolume"] {
  const sourceOf = (source: ContentSource | undefined): Source | undefined => {
    if (source === undefined) return undefined;
    const found = source.kind === "volume" ? host.state.volumes.get(source.id) : cut.get(source.id);
    if (found === undefined)
      throw new DriverError("NOT_FOUND", `there is no ${source.kind} ${source.id} to make it from`);
    return found;
  };

  const fill = async (
    record: VolumeRecord,
    source: Source | undefined,
    live: boolean,
    paths: ContentPaths,
    signal: AbortSignal,
  ): Promise<void> => {
    if (source === undefined) {
      if (record.type === "image") await host.images.create(paths.image, record.capacityBytes, signal);
      else await host.trees.makeRoot(paths.data);
      return;
    }
    const copy = () => copyContents(host, source, paths, signal);
    // A snapshot lies still by itself.
    if (source.kind === "volume") await duringQuiet(host, [source], { live }, copy, signal);
    else await copy();
    if (record.type === "directory") return;
    // The filesystem follows at NodeStageVolume: "the plugin … sees to the larger filesystem itself, by NodePublishVolume".
    if (record.capacityBytes > bytesOf(source)) await host.images.grow(paths.image, record.capacityBytes, signal);
    if (record.format?.finished === true) await host.images.newIdentity(paths.image, record.format.fsType, signal);
  };

  return async (input, signal) => {
    const existing = host.state.volumes.byName(input.name);
    if (existing !== undefined) return sameVolume(existing, input);

    const source = sourceOf(input.source);
    const planned = source && { type: source.type, format: source.format, bytes: bytesOf(source) };
    const kind = planKind(input, settings, planned);
    if (!mayBeHere(input.requisite, settings))
      throw new DriverError(
        "RESOURCE_EXHAUSTED",
        `volumes of this driver can be reached from node ${settings.nodeId} alone, and the topology asked for leaves it out; ask the driver of another node`,
      );
    const capacityBytes = planBytes(kind, input, settings, planned);
    if (source !== undefined) await mustBeSound(host, source);

    const giveBack = await room.promise(capacityBytes);
    try {
      const record: VolumeRecord = {
        kind: "volume",
        id: host.newId(),
        name: input.name,
        type: kind.type,
        capacityBytes,
        createdAt: host.clock.now(),
        parameters: kind.parameters,
        source: input.source,
        mutable: kind.mutable,
        format: source?.format,
        attachments: [],
        staging: undefined,
        publications: [],
      };
      await host.state.volumes.add(record, (paths) => fill(record, source, kind.live, paths, signal));
      return record;
    } finally {
      giveBack();
    }
  };

  function sameVolume(existing: VolumeRecord, input: CreateVolumeInput): VolumeRecord {
    const { violations } = parseParameters(input.parameters, input.mutableParameters);
    if (violations.length > 0) throw new DriverError("INVALID_ARGUMENT", violations.join("; "));
    const differing = differences(existing, input, settings);
    if (differing.length === 0) return existing;
    throw new DriverError(
      "ALREADY_EXISTS",
      `${nameOf(existing)} has this name and differs: ${differing.join("; ")}; ask with its arguments, or under another name`,
    );
  }
}
