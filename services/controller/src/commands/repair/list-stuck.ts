import { foreignBlock } from "../../domain/attachment/foreign-block.ts";
import { barBlock } from "../../domain/bar-block.ts";
import { blockOfClaim, type ClaimState } from "../../domain/claim/claim.ts";
import { disputeBlock } from "../../domain/node/dispute.ts";
import { fenceBlock } from "../../domain/node/fence-block.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import { pendingBlock } from "../../domain/node/pending-life.ts";
import { type Attempts, type Blocked, noAttempts } from "../../domain/outcome.ts";
import { pendingNodes } from "../../domain/size/growth.ts";
import type { CutKind, CutRecord, CutState } from "../../domain/snapshot/snapshot.ts";
import type { Attachment, VolumeRecord, VolumeState } from "../../domain/volume/volume.ts";
import type { Nodes, NodeView } from "../../ports.ts";
import type { DamagedRecord, DamagedRecords } from "../../records/damaged-records.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import type { VolumeRecords } from "../../records/volume/volume-records.ts";
import type { Page, PageInput } from "../model.ts";
import { cutsInNamespace } from "../snapshot/snapshot-queries.ts";
import { clampSize, volumesInNamespace } from "../volume/volume-queries.ts";

/** One thing that cannot go on by itself. */
export interface Stuck {
  /** Whose it is; of a snapshot or a group its own key and plugin. */
  readonly volume: Pick<VolumeRecord, "namespace" | "id" | "plugin">;
  readonly of: "volume" | "node" | CutKind;
  readonly workload: string;
  readonly alias: string;
  readonly claimUid: string;
  readonly node: string;
  readonly state:
    | VolumeState
    | ClaimState
    | CutState
    | Attachment["state"]
    | NodeRecord["state"]
    | "DAMAGED"
    | "PENDING"
    | "FOREIGN"
    | "REFUSED"
    | "BARRED";
  readonly blocked: Blocked;
  readonly attempts: Attempts;
}

/** Empty fields do not filter. */
export interface StuckFilter {
  readonly namespace: string;
  readonly plugin: string;
  readonly node: string;
  readonly reasons: readonly string[];
  /** Nothing of nodes, and no damaged records: their words name what is in other namespaces. */
  readonly inNamespace?: boolean;
}

const nobody = { of: "volume", workload: "", alias: "", claimUid: "" } as const;

/** Everything of one volume that is blocked. */
export const stuckOf = (volume: VolumeRecord): readonly Stuck[] => [
  ...(volume.blocked === undefined
    ? []
    : [{ ...nobody, volume, node: "", state: volume.state, blocked: volume.blocked, attempts: volume.attempts }]),
  ...(volume.foreign ?? []).map((hold) => ({
    ...nobody,
    ...hold,
    volume,
    state: "FOREIGN" as const,
    blocked: foreignBlock(volume, hold),
    attempts: noAttempts,
  })),
  ...volume.bars.map((bar) => ({
    ...nobody,
    volume,
    node: bar.node,
    state: "BARRED" as const,
    blocked: barBlock(volume, bar),
    attempts: bar.attempts,
  })),
  ...Object.values(volume.claims).flatMap((claim) => {
    const { workload, alias, uid, node, state, attempts } = claim;
    const blocked = blockOfClaim(claim);
    return blocked === undefined
      ? []
      : [{ ...nobody, volume, workload, alias, claimUid: uid, node, state, blocked, attempts }];
  }),
  ...[volume.expansion, volume.modification].flatMap((change) =>
    change?.blocked === undefined
      ? []
      : [{ ...nobody, volume, node: "", state: volume.state, blocked: change.blocked, attempts: change.attempts }],
  ),
  ...pendingNodes(volume).flatMap(({ node, blocked, attempts }) =>
    blocked === undefined ? [] : [{ ...nobody, volume, node, state: volume.state, blocked, attempts }],
  ),
  ...Object.values(volume.attachments).flatMap(({ node, state, owed }) =>
    owed?.blocked === undefined
      ? []
      : [{ ...nobody, volume, node, state, blocked: owed.blocked, attempts: owed.attempts }],
  ),
];

const matches =
  ({ namespace, plugin, node, reasons }: StuckFilter) =>
  ({ of, volume, node: at, blocked }: Stuck): boolean =>
    (namespace === "" || of === "node" || volume.namespace === namespace) &&
    (plugin === "" || volume.plugin === plugin) &&
    (node === "" || at === node) &&
    (reasons.length === 0 || reasons.includes(blocked.reason));

const stuckCut = (cut: CutRecord): readonly Stuck[] => {
  const its = { ...nobody, of: cut.kind, volume: cut, node: "" };
  const { state, blocked, attempts } = cut;
  return [
    ...(blocked === undefined ? [] : [{ ...its, state, blocked, attempts }]),
    ...cut.bars.map((bar) => ({
      ...its,
      state: "BARRED" as const,
      blocked: barBlock(cut, bar),
      attempts: bar.attempts,
    })),
  ];
};

/** A record of any kind that cannot be read; its message names it where no field of the answer does. */
const stuckDamage = ({ ref: { kind, key }, error, since }: DamagedRecord): Stuck => {
  const slash = key.indexOf("/");
  const ofVolume = kind === "volume" || kind === "snapshot" || kind === "group";
  const [namespace, id] = ofVolume ? [key.slice(0, slash), key.slice(slash + 1)] : ["", ""];
  return {
    ...nobody,
    of: kind === "snapshot" || kind === "group" ? kind : "volume",
    volume: { namespace, id, plugin: kind === "plugin" ? key : "" },
    node: kind === "node" ? key : "",
    state: "DAMAGED",
    blocked: {
      since,
      reason: "RECORD_DAMAGED",
      message: error.message,
      missingProof: "the record as it was",
      clearWith:
        "stop the controllers, and put the last backup into an empty store that HOLDFAST_STORE and HOLDFAST_CELL name: holdfast import <file>; then start them with that store (docs/restore.md)",
    },
    attempts: noAttempts,
  };
};

const ofNode = (node: string, state: Stuck["state"], blocked: Blocked): Stuck => ({
  ...{ ...nobody, of: "node", volume: { namespace: "", id: "", plugin: "" }, attempts: noAttempts },
  ...{ node, state, blocked },
});

/** Another life asks for its name beside claims that stand, or it is fenced. */
const stuckNode = ({ record }: NodeView): readonly Stuck[] => {
  const pending = pendingBlock(record);
  const blocked = pending ?? fenceBlock(record);
  return blocked === undefined ? [] : [ofNode(record.name, pending === undefined ? record.state : "PENDING", blocked)];
};

/** How many records one page may look at before it is handed out short. */
const maxScanned = 2_000;

interface Part {
  readonly stuck: readonly Stuck[];
  readonly scanned: number;
  readonly next: string | undefined;
}

/** Where a list goes on: in which index, and after which key there. */
const sources = ["node-pending", "volume-blocked", "snapshot-blocked", "group-blocked", "damaged"] as const;
type Source = (typeof sources)[number];

const cursorOf = (source: Source, after: string | undefined): string => `${source} ${after ?? ""}`;

const readCursor = (cursor: string | undefined): { readonly source: Source; readonly after: string | undefined } => {
  const [name, after] = (cursor ?? "").split(" ");
  const source = sources.find((known) => known === name) ?? sources[0];
  return { source, after: after === undefined || after === "" ? undefined : after };
};

export interface ListStuckDeps {
  readonly records: Pick<VolumeRecords, "list">;
  readonly cuts: Pick<CutRecords, "list">;
  readonly damages?: Pick<DamagedRecords, "list">;
  readonly nodes: Pick<Nodes, "list" | "disputes">;
}

/** From indexes of what is blocked: what is well costs nothing here. A page ends between two records. */
export const listStuckQuery = ({ records, cuts, damages, nodes }: ListStuckDeps) => {
  const read = async (
    { namespace, inNamespace = false }: StuckFilter,
    source: Source,
    after: string | undefined,
    limit: number,
  ): Promise<Part> => {
    if (inNamespace && (source === "node-pending" || source === "damaged"))
      return { stuck: [], scanned: 0, next: undefined };
    if (source === "node-pending") {
      const own = nodes.list().flatMap(stuckNode);
      // One row a node, by which a page ends.
      const refused = (nodes.disputes?.() ?? []).filter(({ node }) => own.every((one) => one.node !== node));
      const waiting = [...own, ...refused.map((one) => ofNode(one.node, "REFUSED", disputeBlock(one)))]
        .filter(({ node }) => after === undefined || node > after)
        .sort((a, b) => (a.node < b.node ? -1 : 1));
      const stuck = waiting.slice(0, limit);
      return { stuck, scanned: stuck.length, next: waiting.length > stuck.length ? stuck.at(-1)?.node : undefined };
    }
    if (source === "volume-blocked") {
      const page = await volumesInNamespace(records, [source, "all"], { namespace }, { after, limit });
      const stuck = page.volumes.flatMap(({ volume }) => stuckOf(volume));
      return { stuck, scanned: page.volumes.length, next: page.next };
    }
    if (source === "damaged") {
      const [all, from] = [damages?.list() ?? [], Number(after ?? 0)];
      const some = all.slice(from, from + limit);
      const next = from + some.length < all.length ? String(from + some.length) : undefined;
      return { stuck: some.map(stuckDamage), scanned: some.length, next };
    }
    const page = await cutsInNamespace(cuts, [source, "all"], { namespace }, { after, limit });
    return { stuck: page.cuts.flatMap(({ record }) => stuckCut(record)), scanned: page.cuts.length, next: page.next };
  };

  return async (filter: StuckFilter, { size: asked, after: cursor }: PageInput): Promise<Page<Stuck>> => {
    const size = clampSize(asked);
    const items: Stuck[] = [];
    let { source, after } = readCursor(cursor);
    for (let scanned = 0; items.length < size && scanned < maxScanned; ) {
      const part = await read(filter, source, after, size - items.length);
      items.push(...part.stuck.filter(matches(filter)));
      scanned += part.scanned;
      after = part.next;
      if (after !== undefined) continue;
      const next = sources[sources.indexOf(source) + 1];
      if (next === undefined) return { items, next: undefined };
      source = next;
    }
    return { items, next: cursorOf(source, after) };
  };
};
