/** What must hold of every state. Of the rules under search only the words for a wish that waits are taken. */
import { isPending } from "../../../services/controller/src/domain/size/expansion.ts";
import { isModifying } from "../../../services/controller/src/domain/volume/modification.ts";
import type { Backend, Gate, Host, PluginCall } from "./model-types.ts";
import type { PlainRecord } from "./plain-record.ts";
import { externalIdOf, wordsOf } from "./plugin-calls.ts";
import { numberOf } from "./state-places.ts";

export interface Sight {
  readonly record: PlainRecord;
  readonly gates: readonly Gate[];
  readonly hosts: ReadonlyMap<string, Host>;
  readonly backend: Backend;
}

const opOf = {
  ControllerPublishVolume: "attach",
  ControllerUnpublishVolume: "detach",
  CreateVolume: "create",
  DeleteVolume: "delete",
  ControllerExpandVolume: "expand",
  ControllerModifyVolume: "modify",
} as const;

/** Of the gate's own life, and of those before it. */
export const openAt = ({ calls, orphans }: Gate): readonly PluginCall[] => [
  ...orphans,
  ...calls.filter(({ answer }) => answer === undefined),
];

/** The instance that the call is open at counts: an answer of another one ends nothing. */
const speaksFor = ({ intent, bars }: PlainRecord, { method, node }: PluginCall, gate: number): boolean =>
  (intent?.op === opOf[method] && (intent.node ?? "") === node && isAt(intent, gate)) ||
  bars.some((bar) => bar.node === node && isAt(bar, gate));

const isAt = ({ via }: { readonly via?: string }, gate: number): boolean => via !== undefined && numberOf(via) === gate;

export const violation = ({ record, gates, hosts, backend }: Sight): string | undefined => {
  const mounted = [...hosts].filter(([, host]) => host.mounted.length > 0).map(([node]) => node);
  if (mounted.length > 1) return `[I1] mounted for a writer on ${mounted.join(" and ")}`;
  if (backend.attached.length > 1) return `[I1] attached for one node on ${backend.attached.join(" and ")}`;
  for (const node of mounted)
    if (!backend.attached.includes(node)) return `[I2] detached from ${node}, where it is mounted`;
  for (const [node, host] of hosts)
    for (const claim of host.mounted)
      if (record.claims[claim]?.node !== node)
        return `[I5] ${claim} is mounted on ${node}, and no claim owns the mount`;
  for (const { node, state, paused } of Object.values(record.attachments))
    if (
      state === "ATTACHING" &&
      paused === undefined &&
      (record.intent?.op !== "attach" || record.intent.node !== node)
    )
      return `[I4] ${node} is being attached, and no intent says so`;
  const inFlight = gates.flatMap((gate, i) => openAt(gate).map((call) => ({ call, at: i + 1 })));
  for (const node of backend.attached)
    if (record.attachments[node] === undefined && !record.bars.some((bar) => bar.node === node))
      return `[I5] attached to ${node}, and neither a record nor a bar says so`;
  for (const { call, at } of inFlight) {
    const other = Object.keys(record.attachments).find((node) => node !== call.node);
    if (call.method === "ControllerPublishVolume" && other !== undefined)
      return `[I1] granted on ${other} while an attach for ${call.node} is open at a plugin`;
    if (!speaksFor(record, call, at))
      return `[I4] ${wordsOf(call)} is open at a plugin, and neither an intent nor a bar says so`;
  }
  for (const { call } of inFlight)
    if (call.method === "ControllerUnpublishVolume" && mounted.includes(call.node))
      return `[I2] a detach from ${call.node} is open at a plugin, and the volume is mounted there`;
  return ofStorage(record, backend);
};

/** What was made, and what it has become. */
const ofStorage = (record: PlainRecord, { made, size = 1, speed }: Backend): string | undefined => {
  const { state = "AVAILABLE", name = "name-1", externalId = "ext-1", intent, bars, gone } = record;
  const isMaking = intent?.op === "create" || bars.some(({ op }) => op === "create");
  for (const id of made ?? [])
    if (gone || (id !== externalId && !(isMaking && id === externalIdOf(name))))
      return `[I5] ${id} stands at the backend, and no record says so`;
  if (gone) return undefined;
  if (state === "AVAILABLE" && externalId !== "ext-1" && made?.includes(externalId) !== true)
    return `[I1] the record gives out ${externalId}, which does not stand at the backend`;
  const { expansion, modification, capacity, mutableParameters } = record;
  const isOurs = externalId === "ext-1" && name !== "";
  if (intent !== undefined || bars.length > 0 || !isOurs) return undefined;
  if (!isPending(expansion) && (capacity?.actual ?? 1) !== size)
    return `[I5] the backend has size ${size}, and the record ${capacity?.actual ?? 1}`;
  if (!isModifying(modification) && mutableParameters?.["speed"] !== speed)
    return `[I5] the backend has speed ${speed}, and the record ${mutableParameters?.["speed"]}`;
  return undefined;
};
