import type { NodePlugin, NodeRecord, PendingLife } from "../domain/node/node.ts";
import {
  bootsBefore,
  hasTheMemory,
  isSameLife,
  lifeOf,
  machinesBefore,
  provesReboot,
} from "../domain/node/node-life.ts";
import type { AgentHeader } from "./convert.ts";
import { lifeName } from "./life-name.ts";

/** What this controller knows of the process that had the name before. */
export interface Incumbent {
  readonly record: NodeRecord;
  /** A controller has its link, or may have it. */
  readonly alive: boolean;
  /** Instances that were replaced by a later one while this controller looked on. */
  readonly replaced: ReadonlySet<string>;
  /** Claims on the node that its recorded life may hold; undefined = the store is not vetted, so that there may be any number. */
  readonly standing: number | undefined;
}

export type Admission =
  | { readonly kind: "admitted"; readonly record: NodeRecord; readonly memoryLost: boolean }
  | { readonly kind: "conflict"; readonly why: string }
  /** Nothing but the record of the wait changes. */
  | { readonly kind: "pending"; readonly record: NodeRecord; readonly pending: PendingLife; readonly why: string };

/** The newest first, and the order of an agent's list says nothing. */
const byInstance = (a: NodePlugin, b: NodePlugin): number =>
  a.name === b.name ? (a.instance < b.instance ? -1 : 1) : a.name < b.name ? -1 : 1;

const pendingLife = (header: AgentHeader, known: NodeRecord, now: number): PendingLife => {
  const life = lifeOf(header);
  const name = lifeName(life);
  const since = known.pending?.life === name ? known.pending.since : now;
  return { ...life, life: name, address: "", since };
};

/** Another life asks for the name of `known`. */
const judgeOther = (
  header: AgentHeader,
  { record: known, alive, replaced, standing }: Incumbent,
  now: number,
): Exclude<Admission, { readonly kind: "admitted" }> | undefined => {
  const life = lifeOf(header);
  const chosen = known.admitted !== undefined && known.admitted === lifeName(life);
  const claims = standing === undefined ? "claims that the store may have lost" : `${standing} claims`;
  if (alive && (standing !== 0 || chosen)) {
    const pending = pendingLife(header, known, now);
    const { admitted: _objected, ...kept } = known;
    const living = `two living agents use this name, and ${claims} stand: the recorded life, boot ${known.bootId}, still speaks`;
    const booted = `${claims} stand, and boot ${known.bootId} of the very host may still speak: this boot is taken once no controller has had that link for a grace (HOLDFAST_LINK_GRACE)`;
    const why = provesReboot(known, life) ? booted : living;
    return { kind: "pending", record: { ...kept, pending }, pending, why };
  }
  if (chosen || provesReboot(known, life)) return undefined;
  if (standing !== 0) {
    const pending = pendingLife(header, known, now);
    const why = `another life of this name (boot ${known.bootId}, journal ${known.journalUid}) may still hold ${claims}`;
    return { kind: "pending", record: { ...known, pending }, pending, why };
  }
  if (alive && !hasTheMemory(known, life))
    return {
      kind: "conflict",
      why: `a live agent on machine ${known.machineId} has this name, and its journal is another one`,
    };
  return alive && replaced.has(header.instance) ? { kind: "conflict", why: replacedWhy } : undefined;
};

const replacedWhy = "a later process with the same journal has registered since; one is a copy";

/**
 * Whether a process may speak for a node. The life that the record names is the node: the lock of its journal proves that no other
 * process has it. Another life is taken for the node only while no claim stands that the recorded life may hold, as a later boot of the
 * very host when no controller may have the recorded life's link, or on a person's word; and always with a new incarnation, so that no
 * permit for the old life is ever honoured.
 */
export const admitNode = (
  header: AgentHeader,
  plugins: readonly NodePlugin[],
  incumbent: Incumbent | undefined,
  now: number,
): Admission => {
  const known = incumbent?.record;
  const life = lifeOf(header);
  const same = known !== undefined && isSameLife(known, life);
  if (incumbent !== undefined && known !== undefined && header.instance !== known.instance) {
    const refused = same ? undefined : judgeOther(header, incumbent, now);
    if (refused !== undefined) return refused;
    // A copy of a machine, state directory and all: each thinks that it is the node, and both still speak.
    if (same && incumbent.replaced.has(header.instance)) return { kind: "conflict", why: replacedWhy };
  }
  const last = Math.max(known?.nodeEpoch ?? 0, header.nodeEpoch);
  const another = known !== undefined && !same;
  const nodeEpoch = another ? last + 1 : Math.max(1, last);
  const onWord = another && known.admitted === lifeName(life);
  const unproved = another && !provesReboot(known, life);
  const speaksFrom = onWord ? undefined : unproved ? nodeEpoch : known?.speaksFrom;
  const outlived = onWord ? lifeOf(known) : unproved ? undefined : known?.outlived;
  const boots = known === undefined ? [] : bootsBefore(known, life);
  const machines = known === undefined ? [] : machinesBefore(known, life);
  // Without a word that was not used: the recorded life speaks, and with that it objects.
  const pending = known?.pending?.life === lifeName(life) ? undefined : known?.pending;
  return {
    kind: "admitted",
    memoryLost: known !== undefined && !hasTheMemory(known, life),
    // Without a doubt about its link, and without its loss: a controller hears it.
    record: {
      name: header.name,
      life: lifeName(life),
      ...life,
      instance: header.instance,
      nodeEpoch,
      // A name that was forgotten is taken like a new one, but for its incarnation.
      state: known?.state ?? "READY",
      address: "",
      version: header.version,
      verificationScope: header.verificationScope,
      plugins: [...plugins].sort(byInstance),
      ...(known?.drain === undefined ? {} : { drain: known.drain }),
      ...(known?.fence === undefined ? {} : { fence: { ...known.fence, spoke: true } }),
      ...(known?.changedBy === undefined ? {} : { changedBy: known.changedBy }),
      ...(pending === undefined ? {} : { pending }),
      ...(speaksFrom === undefined ? {} : { speaksFrom }),
      ...(outlived === undefined ? {} : { outlived }),
      ...(boots.length === 0 ? {} : { bootsBefore: boots }),
      ...(machines.length === 0 ? {} : { machinesBefore: machines }),
      registeredAt: known?.forgottenAt === undefined ? (known?.registeredAt ?? now) : now,
      updatedAt: now,
    },
  };
};

/** Fingerprints after a report: what changed in the place of what was, what is gone left out. */
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
export const sameNode = (a: NodeRecord, b: NodeRecord): boolean => textOf(a) === textOf(b);

/** In which order a format of the store gives the fields back says nothing. */
const textOf = (record: NodeRecord): string =>
  JSON.stringify({ ...record, updatedAt: 0 }, (_key, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
