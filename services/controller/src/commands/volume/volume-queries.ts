import { limits } from "../../domain/limits.ts";
import { isBlocked } from "../../domain/size/growth.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { VersionedVolume } from "../../records/record-cache.ts";
import type { VolumeIndex } from "../../records/volume/volume-codec.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { CommandDeps } from "../command-deps.ts";
import { volumeNotFound } from "../errors.ts";
import type { Commands, VolumeFilter, VolumeView } from "../model.ts";
import { type NamespaceRange, pageInNamespace } from "../namespace-range.ts";
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

const matches =
  (filter: VolumeFilter) =>
  (volume: VolumeRecord): boolean =>
    (filter.namespace === "" || volume.namespace === filter.namespace) &&
    (filter.plugin === "" || volume.plugin === filter.plugin) &&
    (filter.states.length === 0 || filter.states.includes(volume.state)) &&
    (!filter.blocked || isBlocked(volume)) &&
    (filter.idPrefix === "" || volume.id.startsWith(filter.idPrefix)) &&
    Object.entries(filter.labels).every(([key, value]) => volume.labels[key] === value);

/** The volumes of a list that are in the namespace; all without one. */
export const volumesInNamespace = async (
  records: Pick<VolumeRecords, "list">,
  [index, value]: readonly [index: VolumeIndex, value: string],
  range: NamespaceRange,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<{ readonly volumes: readonly VersionedVolume[]; readonly next: string | undefined }> => {
  const { items, next } = await pageInNamespace(range, after, async (from) => {
    const page = await records.list(index, value, { after: from, limit });
    return { items: page.volumes.map((found) => ({ namespace: found.volume.namespace, found })), next: page.next };
  });
  return { volumes: items.map(({ found }) => found), next };
};

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
    const fits = matches(filter);
    const items: VolumeView[] = [];
    let next = after;
    let scanned = 0;
    do {
      signal?.throwIfAborted();
      const page = await volumesInNamespace(records, [index, value], filter, {
        after: next,
        limit: size - items.length,
      });
      items.push(...page.volumes.filter((v) => fits(v.volume)));
      scanned += page.volumes.length;
      next = page.next;
    } while (next !== undefined && items.length < size && scanned < maxScanned);
    return { items, next };
  },
});
