/** All volumes of a group made anew in one commit, each from its own snapshot (domain/volume/group-restore.ts). */
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { volumeNote } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import { type GroupRecord, membersOf } from "../../domain/snapshot/snapshot.ts";
import { formatWithRestores } from "../../domain/store-format.ts";
import { owesRestoreEnd } from "../../domain/volume/group-restore.ts";
import type { GroupRestore, VolumeRef } from "../../domain/volume/volume.ts";
import type { VersionedVolume } from "../../records/record-cache.ts";
import { cutRef } from "../../records/snapshot-codec.ts";
import type { CommandDeps } from "../command-deps.ts";
import { storeUnvetted, volumeLeaving, volumeNotFound } from "../errors.ts";
import type { CreateVolumeInput } from "../model.ts";
import { checkFit, type FoundSource, snapshotSource, tooSmall } from "../volume/content-source.ts";
import { checkPlugin, differsFrom, newVolume } from "../volume/create-volume.ts";
import { groupNotFound, restoreNeedsUpgrade, restoreTaken, snapshotNotReady } from "./snapshot-errors.ts";
import { findGroup } from "./snapshot-queries.ts";
import type { RestoredMember, RestoreGroupInput, RestoreView, SnapshotCommands } from "./snapshot-types.ts";
import { validateRestoreGroup } from "./validate-snapshot.ts";

const refsOf = ({ namespace, members }: RestoreGroupInput): readonly VolumeRef[] =>
  members.map(({ id }) => ({ namespace, id }));

/** The request for one of the volumes. */
const volumeInput = (
  { namespace, requestId }: RestoreGroupInput,
  { source: _s, ...own }: RestoredMember,
  { plugin, contentSource }: Pick<CreateVolumeInput, "plugin" | "contentSource">,
): CreateVolumeInput => ({ ...own, plugin, contentSource, namespace, requestId });

const mappingOf = (members: GroupRestore["members"]): string =>
  JSON.stringify(members.map(({ source, id }) => [source, id]).sort());

/** As it stands; undefined = there is none of these volumes. A part of the set that is gone does not make it another one. */
const standing = async (
  { records }: Pick<CommandDeps, "records">,
  input: RestoreGroupInput,
): Promise<RestoreView | undefined> => {
  const found = await records.getMany(refsOf(input));
  const there = found.filter((one) => one !== undefined);
  if (there.length === 0) return undefined;
  const asked = mappingOf(input.members);
  const set = there.find(
    ({ volume: { restore } }) => restore?.group === input.group && mappingOf(restore.members) === asked,
  );
  const uid = set?.volume.restore?.uid;
  const strangers = there.filter(({ volume }) => uid === undefined || volume.restore?.uid !== uid);
  const leaving = there.find(({ volume }) => volume.goal === "absent");
  if (strangers.length > 0) {
    const staying = strangers.filter(({ volume }) => volume.goal === "present");
    if (staying.length === 0 && leaving !== undefined) throw volumeLeaving(leaving.volume);
    throw restoreTaken(
      staying.map(({ volume }) => volume),
      "restore",
    );
  }
  // Nobody wants any of them any more: whoever repeats the request then asks for another set.
  if (leaving !== undefined && there.every(({ volume }) => volume.goal === "absent"))
    throw volumeLeaving(leaving.volume);
  for (const [i, member] of input.members.entries()) {
    const volume = found[i]?.volume;
    if (volume === undefined) continue;
    const field = differsFrom(volumeInput(input, member, volume), volume);
    if (field !== undefined) throw restoreTaken([volume], field);
  }
  return viewOf(input, found);
};

const viewOf = (input: RestoreGroupInput, found: readonly (VersionedVolume | undefined)[]): RestoreView => {
  const volumes = found.filter((one) => one !== undefined);
  const gone = input.members.flatMap(({ id }, i) => (found[i] === undefined ? [id] : []));
  const ready = volumes.every(({ volume }) => volume.state === "AVAILABLE" && volume.goal === "present");
  const failed = volumes.some(({ volume }) => volume.state === "FAILED" || volume.goal === "absent");
  return {
    state: gone.length > 0 || failed ? "FAILED" : ready ? "READY" : "CREATING",
    deciding: volumes.some(({ volume }) => owesRestoreEnd(volume)),
    volumes,
    gone,
  };
};

interface ReadyGroup {
  readonly record: GroupRecord;
  readonly rev: number;
}

const readyGroup = async ({ cuts }: CommandDeps, { namespace, group }: RestoreGroupInput): Promise<ReadyGroup> => {
  const found = await findGroup(cuts, { namespace, id: group });
  if (found === undefined) throw groupNotFound({ namespace, id: group });
  if (found.record.state !== "READY" || found.record.goal === "absent") throw snapshotNotReady(found.record);
  return found;
};

interface Planned {
  readonly input: CreateVolumeInput;
  readonly from: FoundSource;
}

/** Each volume with its snapshot; every violation of the whole mapping at once. */
const planned = (deps: CommandDeps, input: RestoreGroupInput, { record, rev }: ReadyGroup): readonly Planned[] => {
  const { plugin } = record;
  const snapshots = new Map(membersOf(record).map((snapshot) => [snapshot.volume, snapshot]));
  const named = new Set(input.members.map(({ source }) => source));
  const strange = input.members.flatMap(({ source }, i) =>
    snapshots.has(source)
      ? []
      : [{ field: `members[${i}].source`, description: `group ${record.id} has no snapshot of volume ${source}` }],
  );
  const missing = [...snapshots.keys()].flatMap((volume) =>
    named.has(volume) ? [] : [{ field: "members", description: `lacks volume ${volume} of group ${record.id}` }],
  );
  const plans = input.members.map((member): Planned | undefined => {
    const snapshot = snapshots.get(member.source);
    if (snapshot === undefined) return undefined;
    const contentSource = { kind: "snapshot", id: snapshot.id } as const;
    return {
      input: volumeInput(input, member, { plugin, contentSource }),
      from: snapshotSource(deps.plugins, snapshot, rev),
    };
  });
  const small = plans.flatMap((plan, i) =>
    plan === undefined
      ? []
      : tooSmall(plan.input, plan.from).map(({ field, description }) => ({
          field: `members[${i}].${field}`,
          description,
        })),
  );
  const violations = [...strange, ...missing, ...small];
  if (violations.length > 0) throw invalidArgument(violations);
  const whole = plans.filter((plan) => plan !== undefined);
  for (const plan of whole) {
    checkPlugin(plan.input, deps.plugins);
    checkFit(deps, plan.input, plan.from);
  }
  return whole;
};

export const restoreGroupCommand =
  (deps: CommandDeps): SnapshotCommands["restoreGroup"] =>
  async (input, caller) => {
    const { records, ids, gate, secrets, feed } = deps;
    validateRestoreGroup(input, secrets.granted);
    const known = await standing(deps, input);
    if (known !== undefined) return known;
    if (feed.format() < formatWithRestores) throw restoreNeedsUpgrade(input, feed.format(), formatWithRestores);
    if (!gate.state().open) throw storeUnvetted(gate.state().reason);
    const group = await readyGroup(deps, input);
    const plans = planned(deps, input, group);
    const restore: GroupRestore = {
      uid: ids.uuid(),
      group: input.group,
      members: input.members.map(({ source, id }) => ({ source, id })),
    };
    const lives = plans.map(() => ({ uid: ids.uuid(), name: ids.uuid() }));
    const refs = new Set(plans.flatMap((plan) => Object.values(plan.input.secretRefs)));
    await records.insertAll(
      (at: Moment) =>
        plans.map(({ input: one, from: { source } }, i) => {
          const { uid = "", name = "" } = lives[i] ?? {};
          const volume = { ...newVolume(one, caller, uid, { name, source }, at), restore };
          return { volume, ended: [], notes: [volumeNote(volume)] };
        }),
      // The volumes hold on to their snapshots from the very commit on that finds the group fit.
      async () => {
        const now = await readyGroup(deps, input);
        if (now.record.uid !== group.record.uid) throw groupNotFound({ namespace: input.namespace, id: input.group });
        return [{ ref: cutRef(now.record), expectedRev: now.rev }, ...(await secrets.expected([...refs]))];
      },
    );
    // Ours, or what somebody else made under one of these ids at the same time.
    const made = await standing(deps, input);
    const [first = { namespace: input.namespace, id: "" }] = refsOf(input);
    if (made === undefined) throw volumeNotFound(first);
    return made;
  };

export const findRestoreQuery =
  (deps: Pick<CommandDeps, "records">): SnapshotCommands["findRestore"] =>
  async (input) =>
    viewOf(input, await deps.records.recentMany(refsOf(input)));
