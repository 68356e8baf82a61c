import type { ListedSnapshot, ListedVolume } from "../listing.ts";
import { volumeCommand } from "../operator-command.ts";
import { type VolumeRecord, volumeKey } from "../volume/volume.ts";

/** What has no owner, and how it is told apart from what only looks so. */

export const orphanKinds = ["mount", "attachment", "storage", "record", "snapshot"] as const;
export type OrphanKind = (typeof orphanKinds)[number];

export interface OrphanFinding {
  readonly kind: OrphanKind;
  /** "" = of no plugin: a mount on a host. */
  readonly plugin: string;
  readonly externalId: string;
  /** "" = none of that id ever registered, or it is about none. */
  readonly node: string;
  /** The plugin's id of the node. */
  readonly driverNodeId: string;
  readonly namespace: string;
  readonly volume: string;
  /** On the host. */
  readonly path: string;
  /** 0 = not told. */
  readonly sizeBytes: number;
  readonly detail: string;
}

/** As it is kept from one scan to the next, so that its age outlives the process that found it. */
export interface Orphan extends OrphanFinding {
  readonly id: string;
  readonly foundAt: number;
  readonly seenAt: number;
}

/** What makes it the same one in the next scan. */
export const orphanIdentity = (f: OrphanFinding): string =>
  JSON.stringify([
    f.kind,
    f.plugin,
    f.externalId,
    f.driverNodeId,
    f.path,
    ...(f.kind === "mount" ? [f.node] : []),
    ...(f.kind === "record" ? [f.namespace, f.volume] : []),
  ]);

/** The command that deals with it. */
export const orphanRemedy = ({ kind, id, namespace, volume, node, path }: Orphan): string => {
  switch (kind) {
    case "mount":
      return `umount ${path} on node ${node}, once nothing there uses it`;
    case "record":
      return `restore the storage at the backend, or: ${volumeCommand("repair forget-volume", { namespace, id: volume }, "<uid>")}`;
    case "attachment":
    case "storage":
    case "snapshot":
      return `holdfast repair remove-orphan ${id}`;
  }
};

const blank = {
  plugin: "",
  externalId: "",
  node: "",
  driverNodeId: "",
  namespace: "",
  volume: "",
  path: "",
  sizeBytes: 0,
  detail: "",
};

export const storageOrphan = (plugin: string, listed: ListedVolume, detail: string): OrphanFinding => ({
  ...blank,
  kind: "storage",
  plugin,
  externalId: listed.externalId,
  sizeBytes: listed.capacity,
  detail,
});

export const snapshotOrphan = (plugin: string, listed: ListedSnapshot, maybe: string): OrphanFinding => {
  const cut = listed.createdAt === 0 ? "" : ` at ${new Date(listed.createdAt).toISOString()}`;
  const group = listed.group === "" ? "" : `, with group ${listed.group}`;
  return {
    ...blank,
    kind: "snapshot",
    plugin,
    externalId: listed.externalId,
    sizeBytes: listed.size,
    detail: `cut of ${listed.sourceVolume}${cut}${group}; no record stands for it${maybe}`,
  };
};

export const recordOrphan = ({ plugin, externalId, namespace, id }: VolumeRecord): OrphanFinding => ({
  ...blank,
  kind: "record",
  plugin,
  externalId,
  namespace,
  volume: id,
  detail: `volume ${namespace}/${id} is AVAILABLE, and the backend does not have its storage ${externalId}`,
});

export const mountOrphan = (node: string, path: string): OrphanFinding => ({
  ...blank,
  kind: "mount",
  node,
  path,
  detail: `mounted under the root of the agent of node ${node}, whose journal does not explain it`,
});

/** What a backend may need to list what it has just done, and clocks may differ by. */
export const settleMs = 60_000;

/** When the page was asked for, less the time that a backend may take to list what it has just done. */
export interface Sighting {
  readonly before: number;
  /** Ours for the plugin's id of a node. */
  readonly nodeNamed: (driverNodeId: string) => string | undefined;
}

/**
 * A record is judged by a listing only if it has stood as it is since before the listing was asked for, and no call of it is in
 * progress: what is being changed now is neither missing nor left over.
 */
export const mayBeJudged = (volume: VolumeRecord, before: number): boolean =>
  volume.updatedAt < before && volume.stateSince < before && volume.intent === undefined;

export interface Verdict {
  readonly orphans: readonly OrphanFinding[];
  /** Nodes whose attachment the record has, claims hold, and the backend does not show. */
  readonly missing: readonly string[];
  /** Nodes whose attachment the record and the backend agree on. */
  readonly shown: readonly string[];
  /** Nodes whose attachment was held to be missing, and which the backend shows. */
  readonly back: readonly string[];
}

const nothingWrong: Verdict = { orphans: [], missing: [], shown: [], back: [] };

/** One listed volume against the record that stands for it. Nothing here detaches anything: an orphan waits for a person. */
export const judgeListed = (listed: ListedVolume, owner: VolumeRecord, at: Sighting): Verdict => {
  const { publishedNodes } = listed;
  if (publishedNodes === undefined || !mayBeJudged(owner, at.before)) return nothingWrong;
  const shown = new Set(publishedNodes);
  const ours = Object.values(owner.attachments).filter((a) => a.needsCalls);
  const known = new Set(ours.map((a) => a.nodeId));
  return {
    orphans: publishedNodes
      .filter((id) => !known.has(id))
      .map((id): OrphanFinding => {
        const node = at.nodeNamed(id) ?? "";
        return {
          ...blank,
          kind: "attachment",
          plugin: owner.plugin,
          externalId: owner.externalId,
          node,
          driverNodeId: id,
          namespace: owner.namespace,
          volume: owner.id,
          detail: `the backend has volume ${volumeKey(owner)} attached to ${node === "" ? `its node ${id}, of which no agent ever registered` : `node ${node}`}, and no record says so`,
        };
      }),
    missing: ours
      .filter((a) => a.state === "ATTACHED" && a.owed === undefined && !shown.has(a.nodeId))
      .map((a) => a.node),
    shown: ours.filter((a) => shown.has(a.nodeId)).map((a) => a.node),
    back: ours.filter((a) => a.owed?.why === "missing" && shown.has(a.nodeId)).map((a) => a.node),
  };
};
