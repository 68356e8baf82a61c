import { type CutRecord, membersOf } from "../../domain/snapshot/snapshot.ts";
import { isCutBlocked } from "../../domain/snapshot/snapshot-bar.ts";
import type { VolumeRef } from "../../domain/volume/volume.ts";
import type { CutIndex } from "../../records/snapshot-codec.ts";
import type { CutRecords, VersionedCut } from "../../records/snapshot-records.ts";
import type { CommandDeps } from "../command-deps.ts";
import type { Page, PageInput } from "../model.ts";
import { pageInNamespace } from "../namespace-range.ts";
import { validateRef } from "../volume/validate-volume.ts";
import { clampSize } from "../volume/volume-queries.ts";
import { groupNotFound, snapshotNotFound } from "./snapshot-errors.ts";
import type { CutFilter, GroupView, SnapshotCommands, SnapshotView } from "./snapshot-types.ts";

/** How many records one page may look at before it is handed out short. */
const maxScanned = 2_000;

type Cuts = Pick<CutRecords, "get" | "list">;

export const findSnapshot = async (cuts: Cuts, { namespace, id }: VolumeRef): Promise<SnapshotView | undefined> => {
  const found = await cuts.get({ kind: "snapshot", namespace, id });
  return found === undefined ? undefined : asSnapshot(found);
};

export const findGroup = async (cuts: Cuts, { namespace, id }: VolumeRef): Promise<GroupView | undefined> => {
  const found = await cuts.get({ kind: "group", namespace, id });
  return found === undefined ? undefined : asGroup(found);
};

const asSnapshot = ({ record, rev }: VersionedCut): SnapshotView | undefined =>
  record.kind === "snapshot" ? { record, rev } : undefined;

/** Its snapshots are views of its own record, so that nothing else has to be read; they share its revision. */
const asGroup = ({ record, rev }: VersionedCut): GroupView | undefined =>
  record.kind === "group"
    ? { record, rev, snapshots: membersOf(record).map((snapshot) => ({ record: snapshot, rev })) }
    : undefined;

/** The narrowest index that covers the filter; the rest is compared record by record. */
const snapshotIndexFor = ({ namespace, volume, plugin, group }: CutFilter): readonly [CutIndex, string] => {
  if (group !== "" && namespace !== "") return ["snapshot-group", `${namespace}/${group}`];
  if (volume !== "" && namespace !== "") return ["snapshot-volume", `${namespace}/${volume}`];
  if (plugin !== "") return ["snapshot-plugin", plugin];
  return namespace === "" ? ["snapshot-all", "all"] : ["snapshot-namespace", namespace];
};

const groupIndexFor = ({ namespace, volume, plugin }: CutFilter): readonly [CutIndex, string] => {
  if (volume !== "" && namespace !== "") return ["group-volume", `${namespace}/${volume}`];
  if (plugin !== "") return ["group-plugin", plugin];
  return namespace === "" ? ["group-all", "all"] : ["group-namespace", namespace];
};

const isOf = (record: CutRecord, volume: string): boolean =>
  record.kind === "group" ? record.members.some((member) => member.volume === volume) : record.volume === volume;

const matches =
  (filter: CutFilter) =>
  (record: CutRecord): boolean =>
    (filter.namespace === "" || record.namespace === filter.namespace) &&
    (filter.plugin === "" || record.plugin === filter.plugin) &&
    (filter.volume === "" || isOf(record, filter.volume)) &&
    (filter.group === "" || record.kind === "group" || record.group === filter.group) &&
    (filter.states.length === 0 || filter.states.includes(record.state)) &&
    (!filter.blocked || isCutBlocked(record)) &&
    Object.entries(filter.labels).every(([key, value]) => record.labels[key] === value);

/** The snapshots or groups of a list that are in the namespace; all without one. */
export const cutsInNamespace = async (
  cuts: Pick<CutRecords, "list">,
  [index, value]: readonly [CutIndex, string],
  { namespace }: { readonly namespace: string },
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<{ readonly cuts: readonly VersionedCut[]; readonly next: string | undefined }> => {
  const { items, next } = await pageInNamespace({ namespace }, after, async (from) => {
    const page = await cuts.list(index, value, { after: from, limit });
    return { items: page.cuts.map((found) => ({ namespace: found.record.namespace, found })), next: page.next };
  });
  return { cuts: items.map(({ found }) => found), next };
};

type Queries = Pick<
  SnapshotCommands,
  "findSnapshot" | "findGroup" | "getSnapshot" | "getGroup" | "listSnapshots" | "listGroups"
>;

export const createSnapshotQueries = ({ cuts }: Pick<CommandDeps, "cuts">): Queries => {
  const listed = async <V>(
    filter: CutFilter,
    [index, value]: readonly [CutIndex, string],
    { size: asked, after, signal }: PageInput,
    view: (cut: VersionedCut) => V | undefined,
  ): Promise<Page<V>> => {
    const size = clampSize(asked);
    const fits = matches(filter);
    const items: V[] = [];
    let next: string | undefined = after;
    let scanned = 0;
    do {
      signal?.throwIfAborted();
      const page = await cutsInNamespace(cuts, [index, value], filter, { after: next, limit: size - items.length });
      items.push(...page.cuts.flatMap((cut) => (fits(cut.record) ? (view(cut) ?? []) : [])));
      scanned += page.cuts.length;
      next = page.next;
    } while (next !== undefined && items.length < size && scanned < maxScanned);
    return { items, next };
  };

  return {
    findSnapshot: (ref) => findSnapshot(cuts, ref),
    findGroup: (ref) => findGroup(cuts, ref),
    async getSnapshot(ref) {
      validateRef(ref);
      const found = await findSnapshot(cuts, ref);
      if (found === undefined) throw snapshotNotFound(ref);
      return found;
    },
    async getGroup(ref) {
      validateRef(ref);
      const found = await findGroup(cuts, ref);
      if (found === undefined) throw groupNotFound(ref);
      return found;
    },
    listSnapshots: (filter, page) => listed(filter, snapshotIndexFor(filter), page, asSnapshot),
    listGroups: (filter, page) => listed(filter, groupIndexFor(filter), page, asGroup),
  };
};
