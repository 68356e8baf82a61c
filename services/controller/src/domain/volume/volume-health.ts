/**
 * What plugins of CSI 1.13 say is wrong with a volume. The backend and each node have views of their own, which mean different
 * things and are kept apart. Statuses that this version does not know are kept and shown, and nothing acts on them.
 */
import { healthText, type VolumeHealthEntry, type VolumeHealthStatus } from "@holdfast/model/health";

/** `backend`, or the name of a node, which no backend has. */
export type HealthSide = "backend" | `node ${string}`;

export interface HealthView {
  readonly since: number;
  /** When it was last said, to within five minutes. */
  readonly heardAt: number;
  readonly entries: readonly VolumeHealthEntry[];
}

/** By side; a side that knows of nothing adverse has no view. */
export type StoredHealth = Readonly<Partial<Record<HealthSide, HealthView>>>;

interface WithHealth {
  readonly health?: StoredHealth;
}

export const nodeOfSide = (side: HealthSide): string => (side === "backend" ? "" : side.slice("node ".length));

export const sideWords = (side: HealthSide): string => (side === "backend" ? "its backend" : side);

/** Rising. */
const order: readonly VolumeHealthStatus[] = ["DEGRADED", "INACCESSIBLE", "DATA_LOSS"];

/** The worst of what is known; undefined = nothing but what this version does not know. */
export const worstStatus = (entries: readonly VolumeHealthEntry[]): VolumeHealthStatus | undefined =>
  order.findLast((status) => entries.some((entry) => entry.status === status));

export const sidesOf = ({ health = {} }: WithHealth): readonly (readonly [HealthSide, HealthView])[] =>
  (Object.entries(health) as [HealthSide, HealthView][]).sort(([a], [b]) => (a < b ? -1 : 1));

/** Nodes whose own view may differ from that of all others. */
export const nodesWithViews = (volume: WithHealth): readonly string[] =>
  sidesOf(volume).flatMap(([side]) => (side === "backend" ? [] : [nodeOfSide(side)]));

/** Why the volume should not be used on the node; undefined = nobody speaks against it. */
export const inaccessibleOn = (volume: WithHealth, node: string): string | undefined => {
  for (const [side, { entries }] of sidesOf(volume)) {
    const of = nodeOfSide(side);
    if (of !== "" && of !== node) continue;
    const said = entries.filter(({ status }) => status === "INACCESSIBLE");
    if (said.length > 0) return `${sideWords(side)} says ${healthText(said)}`;
  }
  return undefined;
};

type Named = WithHealth & { readonly namespace: string; readonly id: string };

export const restoreCommand = ({ id, namespace }: Omit<Named, "health">): string =>
  `holdfast snapshot list --volume ${id} --namespace ${namespace}`;

/** For Explain: each side in its own words. */
export const healthFindings = (volume: WithHealth, name: string): readonly string[] =>
  sidesOf(volume).map(([side, { entries }]) => {
    const said = `${name}: ${sideWords(side)} says ${healthText(entries)}.`;
    return worstStatus(entries) === "DATA_LOSS" ? `${said} Restore it from a snapshot.` : said;
  });

export const healthActions = (volume: Named): readonly string[] =>
  sidesOf(volume).some(([, { entries }]) => worstStatus(entries) === "DATA_LOSS") ? [restoreCommand(volume)] : [];
