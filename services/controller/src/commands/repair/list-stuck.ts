import type { ClaimState } from "../../domain/claim.ts";
import { pendingNodes } from "../../domain/growth.ts";
import type { Attempts, Blocked } from "../../domain/outcome.ts";
import type { Attachment, VolumeRecord, VolumeState } from "../../domain/volume.ts";
import type { VolumeRecords } from "../../records/volume-records.ts";
import type { Page, PageInput } from "../model.ts";
import { clampSize } from "../volume-queries.ts";

/** One thing of a volume that cannot go on by itself. */
export interface Stuck {
  readonly volume: VolumeRecord;
  readonly workload: string;
  readonly alias: string;
  readonly claimUid: string;
  readonly node: string;
  readonly state: VolumeState | ClaimState | Attachment["state"];
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

const nobody = { workload: "", alias: "", claimUid: "" };

/** Everything of one volume that is blocked. */
export const stuckOf = (volume: VolumeRecord): readonly Stuck[] => [
  ...(volume.blocked === undefined
    ? []
    : [{ ...nobody, volume, node: "", state: volume.state, blocked: volume.blocked, attempts: volume.attempts }]),
  ...Object.values(volume.claims).flatMap(({ blocked, workload, alias, uid, node, state, attempts }) =>
    blocked === undefined ? [] : [{ volume, workload, alias, claimUid: uid, node, state, blocked, attempts }],
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

/** How many records one page may look at before it is handed out short. */
const maxScanned = 2_000;

/** From the index of what is blocked: what is well costs nothing here. A page ends between two volumes. */
export const listStuckQuery =
  ({ records }: { readonly records: Pick<VolumeRecords, "list"> }) =>
  async (filter: StuckFilter, { size: asked, after }: PageInput): Promise<Page<Stuck>> => {
    const size = clampSize(asked);
    const items: Stuck[] = [];
    let next: string | undefined = after;
    let scanned = 0;
    do {
      const page = await records.list("volume-blocked", "all", { after: next, limit: size - items.length });
      items.push(...page.volumes.flatMap(({ volume }) => stuckOf(volume)).filter(matches(filter)));
      scanned += page.volumes.length;
      next = page.next;
    } while (next !== undefined && items.length < size && scanned < maxScanned);
    return { items, next };
  };
