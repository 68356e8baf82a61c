/**
 * Records of volumes, made anew from what agents hold and backends list, after the store was lost without a backup.
 *
 * Rebuild-1 Nothing is guessed: a hold that is not wholly told is a foreign one, which bars its volume; a volume whose context nobody tells,
 * or that an unheard node may use, is not granted; storage and names that contradict each other get no record.
 * Rebuild-2 A claim runs on under its own uid and epoch, so that its release is the one that its agent waits for.
 * Rebuild-3 Of a volume that no agent holds nobody knows what it may be used for: it is named, and gets no record.
 */
import { living } from "../attachment/foreign-hold.ts";
import { type VolumeRecord, volumeKey } from "../volume/volume.ts";
import { highest, type RebuildFacts, type RebuiltRow, rebuiltVolume, type Sighting } from "./rebuilt-volume.ts";

export interface Rebuilt {
  readonly volumes: readonly VolumeRecord[];
  readonly rows: readonly RebuiltRow[];
  /** The highest that any agent has seen. */
  readonly gen: number;
}

const storageOf = ({ plugin, externalId }: Pick<Sighting, "plugin" | "externalId">): string =>
  `${plugin}/${externalId}`;
const nameOf = ({ namespace, volume }: Pick<Sighting, "namespace" | "volume">): string =>
  volumeKey({ namespace, id: volume });

const sightingsOf = ({ nodes }: RebuildFacts): readonly Sighting[] =>
  nodes.flatMap(({ record, inventory }) => inventory.volumes.map((volume) => ({ ...volume, node: record })));

const isHeld = ({ held }: Sighting): boolean => living(held).length > 0;

const noRecord = (subject: string, ...words: readonly string[]): RebuiltRow => ({
  subject,
  outcome: "no record",
  words,
});

/** One name is that of one storage, and the other way round; otherwise no record says which is which. */
const contradiction = (of: readonly Sighting[]): string | undefined => {
  const differ = (what: (one: Sighting) => string): boolean => new Set(of.map(what)).size > 1;
  if (!differ(nameOf) && !differ(storageOf) && !differ(({ volumeUid }) => volumeUid)) return undefined;
  const seen = of.map((one) => `${nameOf(one)} (${one.volumeUid}) is ${storageOf(one)} on node ${one.node.name}`);
  return `agents contradict each other: ${[...new Set(seen)].join("; ")}; end it on one of them, and rebuild again`;
};

/** What no agent holds, though one knows its name or a backend lists it. Rebuild-3 */
const unheld = (
  facts: RebuildFacts,
  sightings: readonly Sighting[],
  held: readonly Sighting[],
): readonly RebuiltRow[] => {
  const taken = new Set(held.map(storageOf));
  const named = new Map(sightings.filter((one) => !isHeld(one)).map((one) => [storageOf(one), one]));
  const plugins = new Set([
    ...sightings.map(({ plugin }) => plugin),
    ...facts.nodes.flatMap(({ record }) => record.plugins.map(({ name }) => name)),
  ]);
  return [...plugins].sort().flatMap((plugin) => {
    const { listed } = facts.plugin(plugin);
    const ids = new Set(typeof listed === "string" ? [] : listed.keys());
    for (const one of named.values()) if (one.plugin === plugin) ids.add(one.externalId);
    return [...ids].sort().flatMap((externalId) => {
      const storage = `${plugin}/${externalId}`;
      if (taken.has(storage)) return [];
      const name = named.get(storage);
      const was = name === undefined ? "no agent knows its name" : `it was ${nameOf(name)}`;
      const there = typeof listed === "string" ? "whether it is still there is not known" : "";
      if (typeof listed !== "string" && !listed.has(externalId)) return [];
      const cure = "no agent holds it; if it is to be used: holdfast volume register <file>";
      return [noRecord(storage, ...[was, there, cure].filter((words) => words !== ""))];
    });
  });
};

export const rebuildVolumes = (facts: RebuildFacts): Rebuilt => {
  const sightings = sightingsOf(facts);
  const held = sightings.filter(isHeld);
  const volumes: VolumeRecord[] = [];
  const rows: RebuiltRow[] = [];
  const done = new Set<Sighting>();
  for (const first of held) {
    if (done.has(first)) continue;
    const same = held.filter((one) => nameOf(one) === nameOf(first) || storageOf(one) === storageOf(first));
    for (const one of same) done.add(one);
    const against = contradiction(same);
    if (against !== undefined) {
      rows.push(noRecord(nameOf(first), against));
      continue;
    }
    // What was released there says how far its epochs have come.
    const beside = sightings.filter((one) => !isHeld(one) && one.volumeUid === first.volumeUid);
    const { volume, row } = rebuiltVolume([...same, ...beside], facts);
    volumes.push(volume);
    rows.push(row);
  }
  const gens = [
    ...facts.nodes.map(({ inventory }) => inventory.promisedGen ?? 0),
    ...sightings.map((one) => highest([one]).gen),
  ];
  return { volumes, rows: [...rows, ...unheld(facts, sightings, held)], gen: Math.max(1, ...gens) };
};
