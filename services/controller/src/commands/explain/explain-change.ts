import { releaseCommand } from "@holdfast/model/operator-command";
import type { Attempts, Blocked } from "../../domain/outcome.ts";
import { type Expansion, isPending } from "../../domain/size/expansion.ts";
import { isUnused, pendingNodes } from "../../domain/size/growth.ts";
import { isModifying } from "../../domain/volume/modification.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { attemptsFinding, blockedFinding } from "./blocked-finding.ts";

/** How the changes of a volume stand that were asked for, for people. */

interface Part {
  readonly attempts: Attempts;
  readonly blocked?: Blocked;
}

const trouble = (what: string, { attempts, blocked }: Part): readonly string[] => [
  ...blockedFinding(what, blocked),
  ...attemptsFinding(what, attempts, blocked),
];

const stepOf = (volume: VolumeRecord, state: "WANTED" | "CALLING" | "UNCERTAIN", op: "expand" | "modify"): string => {
  const method = op === "expand" ? "ControllerExpandVolume" : "ControllerModifyVolume";
  const { intent } = volume;
  if (intent !== undefined && intent.op !== op)
    return `waits for another call of the volume to end (${intent.op}${intent.node === undefined ? "" : ` of node ${intent.node}`})`;
  if (state === "CALLING") return method;
  return state === "WANTED"
    ? `waits for its turn to be called (${method})`
    : `${method} is repeated: nobody knows yet what it has done`;
};

const expansionFindings = (volume: VolumeRecord, expansion: Expansion): readonly string[] => {
  const what = `The expansion to ${expansion.target.required} bytes`;
  if (expansion.state === "REFUSED")
    return [
      `${what} was refused (${expansion.failure?.reason ?? ""}): ${expansion.failure?.message ?? ""}; the volume is as it was.`,
    ];
  const holders = [...new Set(Object.values(volume.claims).map((c) => `workload ${c.workload} on node ${c.node}`))];
  const waits =
    expansion.onlyUnused && !isUnused(volume)
      ? `waits for the volume to be unused; it has: ${holders.slice(0, 10).join(", ")}`
      : stepOf(volume, expansion.state, "expand");
  return [...trouble(what, expansion), `${what}: ${waits}.`];
};

const growthFindings = (volume: VolumeRecord): readonly string[] => {
  const { growth } = volume;
  if (growth === undefined) return [];
  const pending = pendingNodes(volume);
  const size = `The growth to ${growth.bytes} bytes`;
  if (pending.length === 0 && growth.done.length === 0)
    return [`${size} is owed to the next node that stages the volume (NodeExpandVolume).`];
  return pending
    .slice(0, 20)
    .flatMap((part) => [
      ...trouble(`${size} on node ${part.node}`, part),
      `${size}: NodeExpandVolume on node ${part.node}.`,
    ]);
};

const modificationFindings = (volume: VolumeRecord): readonly string[] => {
  const { modification } = volume;
  if (modification === undefined) return [];
  // Values may be anybody's business; which keys change is not.
  const what = `The modification of ${Object.keys(modification.target).sort().join(", ")}`;
  if (modification.state === "REFUSED")
    return [
      `${what} was refused (${modification.failure?.reason ?? ""}): ${modification.failure?.message ?? ""}; the parameters are as they were.`,
    ];
  return [...trouble(what, modification), `${what}: ${stepOf(volume, modification.state, "modify")}.`];
};

export const changeFindings = (volume: VolumeRecord): readonly string[] => [
  ...(volume.expansion === undefined ? [] : expansionFindings(volume, volume.expansion)),
  ...growthFindings(volume),
  ...modificationFindings(volume),
];

/** Commands that would help. */
export const changeActions = (volume: VolumeRecord): readonly string[] => {
  const { expansion, modification } = volume;
  const holders =
    isPending(expansion) && expansion.onlyUnused
      ? Object.values(volume.claims).filter((c) => c.goal === "active" && c.state !== "QUEUED")
      : [];
  const blocks = [expansion?.blocked, ...pendingNodes(volume).map((n) => n.blocked), modification?.blocked];
  return [
    ...holders.slice(0, 10).map((c) => releaseCommand(volume.namespace, c)),
    ...blocks.flatMap((blocked) => (blocked === undefined || holders.length > 0 ? [] : [blocked.clearWith])),
  ];
};

/** A call to the controller plugin is owed for it. */
export const changeOwed = ({ expansion, modification }: VolumeRecord): boolean =>
  isPending(expansion) || isModifying(modification);
