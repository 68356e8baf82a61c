import type { ClaimState } from "../../domain/claim.ts";
import { pendingNodes } from "../../domain/growth.ts";
import type { Attempts, Blocked } from "../../domain/outcome.ts";
import type { CutKind, CutRecord, CutState } from "../../domain/snapshot.ts";
import type { Attachment, VolumeRecord, VolumeState } from "../../domain/volume.ts";
import type { CutRecords } from "../../records/snapshot-records.ts";
import type { VolumeRecords } from "../../records/volume-records.ts";
import type { Page, PageInput } from "../model.ts";
import { clampSize } from "../volume-queries.ts";

/** One thing that cannot go on by itself. */
export interface Stuck {
  /** Whose it is; of a snapshot or a group its own key and plugin. */
  readonly volume: Pick<VolumeRecord, "namespace" | "id" | "plugin">;
  readonly of: "volume" | CutKind;
  readonly workload: string;
  readonly alias: string;
  readonly claimUid: string;
  readonly node: string;
  readonly state: VolumeState | ClaimState | CutState | Attachment["state"];
  readonly blocked: Blocked;
  readonly attempts: Attempts;
}

/** Empty fields do not filter. */
export interface StuckFilter {
  readonly namespace: string;
  readonly plugin: string;
  readonly node: string;
  readonly reasons: readonly string[];
}

const nobody = { of: "volume", workload: "", alias: "", claimUid: "" } as const;

/** Everything of one volume that is blocked. */
export const stuckOf = (volume: VolumeRecord): readonly Stuck[] => [
  ...(volume.blocked === undefined
    ? []
    : [{ ...nobody, volume, node: "", state: volume.state, blocked: volume.blocked, attempts: volume.attempts }]),
  ...Object.values(volume.claims).flatMap(({ blocked, workload, alias, uid, node, state, attempts }) =>
    blocked === undefined
      ? []
      : [{ ...nobody, volume, workload, alias, claimUid: uid, node, state, blocked, attempts }],
  ),
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
  ({ volume, node: at, blocked }: Stuck): boolean =>
    (namespace === "" || volume.namespace === namespace) &&
    (plugin === "" || volume.plugin === plugin) &&
    (node === "" || at === node) &&
    (reasons.length === 0 || reasons.includes(blocked.reason));

const stuckCut = (cut: CutRecord): readonly Stuck[] =>
  cut.blocked === undefined
    ? []
    : [
        {
          ...nobody,
          of: cut.kind,
          volume: cut,
          node: "",
          state: cut.state,
          blocked: cut.blocked,
          attempts: cut.attempts,
        },
      ];

/** How many records one page may look at before it is handed out short. */
const maxScanned = 2_000;

interface Part {
  readonly stuck: readonly Stuck[];
  readonly scanned: number;
  readonly next: string | undefined;
}

/** Where a list goes on: in which index, and after which key there. */
const sources = ["volume-blocked", "snapshot-blocked", "group-blocked"] as const;
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
}

/** From indexes of what is blocked: what is well costs nothing here. A page ends between two records. */
export const listStuckQuery = ({ records, cuts }: ListStuckDeps) => {
  const read = async (source: Source, after: string | undefined, limit: number): Promise<Part> => {
    if (source === "volume-blocked") {
      const page = await records.list(source, "all", { after, limit });
      const stuck = page.volumes.flatMap(({ volume }) => stuckOf(volume));
      return { stuck, scanned: page.volumes.length, next: page.next };
    }
    const page = await cuts.list(source, "all", { after, limit });
    return { stuck: page.cuts.flatMap(({ record }) => stuckCut(record)), scanned: page.cuts.length, next: page.next };
  };

  return async (filter: StuckFilter, { size: asked, after: cursor }: PageInput): Promise<Page<Stuck>> => {
    const size = clampSize(asked);
    const items: Stuck[] = [];
    let { source, after } = readCursor(cursor);
    for (let scanned = 0; items.length < size && scanned < maxScanned; ) {
      const part = await read(source, after, size - items.length);
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
