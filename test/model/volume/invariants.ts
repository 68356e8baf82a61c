/** What must hold of every state. Nothing here is taken from the rules under search. */
import type { Backend, Gate, Host, PluginCall } from "./model-types.ts";
import type { PlainRecord } from "./plain-record.ts";
import { numberOf } from "./state-places.ts";

export interface Sight {
  readonly record: PlainRecord;
  readonly gates: readonly Gate[];
  readonly hosts: ReadonlyMap<string, Host>;
  readonly backend: Backend;
}

const opOf = { ControllerPublishVolume: "attach", ControllerUnpublishVolume: "detach" } as const;

/** Of the gate's own life, and of those before it. */
export const openAt = ({ last, orphans }: Gate): readonly PluginCall[] => [
  ...orphans,
  ...(last === undefined || last.answer !== undefined ? [] : [last]),
];

/** The instance that the call is open at counts: an answer of another one ends nothing. */
const speaksFor = ({ intent, bars }: PlainRecord, { method, node }: PluginCall, gate: number): boolean =>
  (intent?.op === opOf[method] && intent.node === node && isAt(intent, gate)) ||
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
      return `[I4] ${call.method} for ${call.node} is open at a plugin, and neither an intent nor a bar says so`;
  }
  for (const { last } of gates)
    if (last?.answer === undefined && last?.method === "ControllerUnpublishVolume" && mounted.includes(last.node))
      return `[I2] a detach from ${last.node} is open at a plugin, and the volume is mounted there`;
  return undefined;
};
