import { limits } from "../../domain/limits.ts";
import { isBlocked } from "../../domain/size/growth.ts";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { VolumeIndex } from "../../records/volume/volume-codec.ts";
import type { CommandDeps } from "../command-deps.ts";
import { volumeNotFound } from "../errors.ts";
import type { Commands, VolumeFilter, VolumeView } from "../model.ts";
import { validateRef } from "./validate-volume.ts";

/** How many records one page may look at before it is handed out short. */
const maxScanned = 2_000;

/** The narrowest index that covers the filter; the rest is compared record by record. */
export const volumeIndexFor = (filter: {
  readonly namespace: string;
  readonly plugin: string;
  readonly node: string;
}): readonly [index: VolumeIndex, value: string] => {
  if (filter.node !== "") return ["claim-node", filter.node];
  if (filter.plugin !== "") return ["volume-plugin", filter.plugin];
  if (filter.namespace !== "") return ["volume-namespace", filter.namespace];
  return ["volume-all", "all"];
};

/** What few volumes are, goes before what many have in common. */
const narrowestFor = (filter: VolumeFilter): readonly [index: VolumeIndex, value: string] => {
  const [state] = filter.states;
  if (filter.node !== "") return ["claim-node", filter.node];
  if (filter.blocked) return ["volume-blocked", "all"];
  if (filter.states.length === 1 && state !== undefined && state !== "AVAILABLE") return ["volume-state", state];
  return volumeIndexFor(filter);
};

/**
 * Lists are in the order of the keys, `namespace/id`: within one namespace those with a prefix stand together, and a list of them begins
 * there and ends with them. Ids hold nothing that sorts behind "~".
 */
const rangeOf = ({ namespace, idPrefix }: VolumeFilter) => {
  if (namespace === "" || idPrefix === "") return undefined;
  const prefix = `${namespace}/${idPrefix}`;
  const last = prefix.length - 1;
  return { prefix, before: `${prefix.slice(0, last)}${String.fromCharCode(prefix.charCodeAt(last) - 1)}~` };
};

const matches =
  (filter: VolumeFilter) =>
  (volume: VolumeRecord): boolean =>
    (filter.namespace === "" || volume.namespace === filter.namespace) &&
    (filter.plugin === "" || volume.plugin === filter.plugin) &&
    (filter.states.length === 0 || filter.states.includes(volume.state)) &&
    (!filter.blocked || isBlocked(volume)) &&
    (filter.idPrefix === "" || volume.id.startsWith(filter.idPrefix)) &&
    Object.entries(filter.labels).every(([key, value]) => volume.labels[key] === value);

export const clampSize = (size: number): number => Math.max(1, Math.min(size, limits.pageSize));

export const createVolumeQueries = ({ records }: CommandDeps): Pick<Commands, "getVolume" | "listVolumes"> => ({
  async getVolume(ref) {
    validateRef(ref);
    const found = await records.get(ref);
    if (found === undefined) throw volumeNotFound(ref);
    return found;
  },

  async listVolumes(filter, { size: asked, after, signal }) {
    const size = clampSize(asked);
    const [index, value] = narrowestFor(filter);
    const range = rangeOf(filter);
    const fits = matches(filter);
    const items: VolumeView[] = [];
    let next: string | undefined = after ?? range?.before;
    let scanned = 0;
    do {
      signal?.throwIfAborted();
      const page = await records.list(index, value, { after: next, limit: size - items.length });
      items.push(...page.volumes.filter((v) => fits(v.volume)));
      scanned += page.volumes.length;
      const last = page.volumes.at(-1);
      const past = range !== undefined && last !== undefined && volumeKey(last.volume) > range.prefix;
      next = past && !volumeKey(last.volume).startsWith(range.prefix) ? undefined : page.next;
    } while (next !== undefined && items.length < size && scanned < maxScanned);
    return { items, next };
  },
});
