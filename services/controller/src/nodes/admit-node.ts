import type { NodePlugin, NodeRecord } from "../domain/node.ts";
import type { AgentHeader } from "./convert.ts";

/** What this controller knows of the process that had the name before. */
export interface Incumbent {
  readonly record: NodeRecord;
  /** It was heard of within three periods. */
  readonly alive: boolean;
  /** Instances that were replaced by a later one while this controller looked on. */
  readonly replaced: ReadonlySet<string>;
}

export type Admission =
  | { readonly kind: "admitted"; readonly record: NodeRecord; readonly memoryLost: boolean }
  | { readonly kind: "conflict"; readonly why: string };

/** The newest first, and the order of an agent's list says nothing. */
const byInstance = (a: NodePlugin, b: NodePlugin): number =>
  a.name === b.name ? (a.instance < b.instance ? -1 : 1) : a.name < b.name ? -1 : 1;

/**
 * Whether a process may speak for a node. One that has the journal of the node is the node: the lock of its state directory proves
 * that no other process has it. Anybody else is taken for the node only once the one that had the name is silent, and only with
 * a new incarnation, so that no permit for the old one is ever honoured.
 */
export const admitNode = (
  header: AgentHeader,
  plugins: readonly NodePlugin[],
  incumbent: Incumbent | undefined,
  now: number,
): Admission => {
  const known = incumbent?.record;
  const sameJournal = known?.journalUid === header.journalUid && known.machineId === header.machineId;
  if (incumbent !== undefined && known !== undefined && header.instance !== known.instance) {
    if (!sameJournal && incumbent.alive)
      return {
        kind: "conflict",
        why: `a live agent on machine ${known.machineId} has this name, and its journal is another one`,
      };
    // A copy of a machine, state directory and all: each thinks that it is the node, and both still speak.
    if (incumbent.replaced.has(header.instance))
      return { kind: "conflict", why: "a later process with the same journal has registered since; one is a copy" };
  }
  const last = Math.max(known?.nodeEpoch ?? 0, header.nodeEpoch);
  const memoryLost = known !== undefined && !sameJournal;
  return {
    kind: "admitted",
    memoryLost,
    record: {
      name: header.name,
      machineId: header.machineId,
      bootId: header.bootId,
      journalUid: header.journalUid,
      instance: header.instance,
      nodeEpoch: memoryLost ? last + 1 : Math.max(1, last),
      // A name that was forgotten is taken like a new one, but for its incarnation.
      state: known?.state ?? "READY",
      address: header.address,
      version: header.version,
      verificationScope: header.verificationScope,
      plugins: [...plugins].sort(byInstance),
      ...(known?.drain === undefined ? {} : { drain: known.drain }),
      ...(known?.changedBy === undefined ? {} : { changedBy: known.changedBy }),
      registeredAt: known?.forgottenAt === undefined ? (known?.registeredAt ?? now) : now,
      updatedAt: now,
    },
  };
};

/** Fingerprints after a heartbeat: what changed in the place of what was, what is gone left out. */
export const withFingerprints = (
  record: NodeRecord,
  changed: readonly NodePlugin[],
  removed: readonly { readonly plugin: string; readonly instance: string }[],
  now: number,
): NodeRecord => {
  const keyOf = (name: string, instance: string): string => `${name}\n${instance}`;
  const gone = new Set([
    ...removed.map(({ plugin, instance }) => keyOf(plugin, instance)),
    ...changed.map(({ name, instance }) => keyOf(name, instance)),
  ]);
  const kept = record.plugins.filter(({ name, instance }) => !gone.has(keyOf(name, instance)));
  return { ...record, plugins: [...kept, ...changed].sort(byInstance), updatedAt: now };
};

/** Nothing differs but the time: there is nothing to store. */
export const sameNode = (a: NodeRecord, b: NodeRecord): boolean =>
  JSON.stringify({ ...a, updatedAt: 0 }) === JSON.stringify({ ...b, updatedAt: 0 });
