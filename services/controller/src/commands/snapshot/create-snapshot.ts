import type { Moment } from "../../domain/moment.ts";
import { noAttempts } from "../../domain/outcome.ts";
import { placed } from "../../domain/plugin/instance-reach.ts";
import type { CutRecord, GroupRecord, SnapshotRecord, SnapshotSecretRefs } from "../../domain/snapshot/snapshot.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import { changedAllTheTime, maxRounds } from "../../records/commit-rounds.ts";
import type { CutExpectation } from "../../records/snapshot-records.ts";
import { volumeRef } from "../../records/volume/volume-codec.ts";
import type { CommandDeps } from "../command-deps.ts";
import { pluginCannot, storeUnvetted, volumeNotAvailable, volumeNotFound } from "../errors.ts";
import type { Caller } from "../model.ts";
import { cutExists, pluginCannotCut } from "./snapshot-errors.ts";
import { findGroup, findSnapshot } from "./snapshot-queries.ts";
import type { CreateGroupInput, CreateSnapshotInput, SnapshotCommands } from "./snapshot-types.ts";
import { checkKnownKeys, validateCreateGroup, validateCreateSnapshot } from "./validate-snapshot.ts";

interface Source {
  readonly volume: VolumeRecord;
  readonly at: CutExpectation;
}

/** The volumes that are to be cut, fit at these very revisions: the commit of the intent compares them again (I4). */
const sourcesOf = async (
  { records }: CommandDeps,
  namespace: string,
  ids: readonly string[],
): Promise<readonly Source[]> => {
  const refs: readonly VolumeRef[] = ids.map((id) => ({ namespace, id }));
  const found = await records.getMany(refs);
  return refs.map((ref, i): Source => {
    const one = found[i];
    if (one === undefined) throw volumeNotFound(ref);
    if (one.volume.state !== "AVAILABLE" || one.volume.goal === "absent") throw volumeNotAvailable(one.volume);
    return { volume: one.volume, at: { ref: volumeRef(ref), expectedRev: one.rev } };
  });
};

/** Without references of its own a snapshot takes those that its volume has for such calls. */
const secretsOf = (asked: SnapshotSecretRefs | undefined, { secretRefs }: VolumeRecord): SnapshotSecretRefs => {
  if (asked !== undefined) return asked;
  const { snapshot, list } = secretRefs;
  return { ...(snapshot === undefined ? {} : { create: snapshot }), ...(list === undefined ? {} : { list }) };
};

const common = (
  input: CreateSnapshotInput | CreateGroupInput,
  caller: Caller,
  first: VolumeRecord,
  ids: { readonly uid: string; readonly name: string },
  at: Moment,
) => ({
  namespace: input.namespace,
  id: input.id,
  ...ids,
  externalId: "",
  plugin: first.plugin,
  pluginVersion: "",
  ...placed(first),
  parameters: input.parameters,
  secretRefs: secretsOf(input.secretRefs, first),
  labels: input.labels,
  cutAt: 0,
  state: "CREATING" as const,
  goal: "present" as const,
  intent: { op: "create" as const, issuer: at.issuer, opId: at.opId },
  bars: [],
  attempts: noAttempts,
  polls: 0,
  requestId: input.requestId,
  ...(caller.traceparent === undefined ? {} : { trace: { parent: caller.traceparent, at: at.now } }),
  createdAt: at.now,
  updatedAt: at.now,
  stateSince: at.now,
  changedBy: { who: caller.who, why: caller.why },
});

const sorted = (map: object) => Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));

/** Whether a record that has the id is what was asked for; the first field that differs is named. */
const compare = (
  record: CutRecord,
  input: CreateSnapshotInput | CreateGroupInput,
  own: readonly (readonly [field: string, has: unknown, asked: unknown])[],
): void => {
  if (record.goal === "absent") throw cutExists(record, "state");
  const fields = [
    ...own,
    ["parameters", sorted(record.parameters), sorted(input.parameters)] as const,
    ["labels", sorted(record.labels), sorted(input.labels)] as const,
    // What the volume says of secrets may have changed since.
    ...(input.secretRefs === undefined
      ? []
      : [["secrets", sorted(record.secretRefs), sorted(input.secretRefs)] as const]),
  ];
  const differing = fields.find(([, has, asked]) => JSON.stringify(has) !== JSON.stringify(asked));
  if (differing !== undefined) throw cutExists(record, differing[0]);
};

const openOnly = ({ gate }: CommandDeps): void => {
  if (!gate.state().open) throw storeUnvetted(gate.state().reason);
};

/** Stores the intent over the very revisions that the sources were found fit at; looks again when somebody was faster. */
const insertOver = async <V>(
  deps: CommandDeps,
  ref: VolumeRef,
  by: Caller,
  standing: () => Promise<V | undefined>,
  make: () => Promise<{ readonly record: (at: Moment) => CutRecord; readonly expects: readonly CutExpectation[] }>,
): Promise<V | "taken"> => {
  for (let round = 0; round < maxRounds; round += 1) {
    const there = await standing();
    if (there !== undefined) return there;
    openOnly(deps);
    const { record, expects } = await make();
    if ((await deps.cuts.insert(record, expects, { by })) === "moved") continue;
    return (await standing()) ?? "taken";
  }
  const { namespace, id } = ref;
  throw changedAllTheTime(`a volume that ${volumeKey(ref)} is to be cut from`, { namespace, snapshot: id });
};

export const createSnapshotCommand =
  (deps: CommandDeps): SnapshotCommands["createSnapshot"] =>
  async (input, caller) => {
    validateCreateSnapshot(input, deps.secrets.granted);
    const { ids, plugins, cuts } = deps;
    const [uid, name] = [ids.uuid(), ids.uuid()];
    const made = await insertOver(
      deps,
      input,
      caller,
      async () => {
        const view = await findSnapshot(cuts, input);
        if (view === undefined) return undefined;
        const { record } = view;
        if (record.group !== "") throw cutExists(record, "group");
        compare(record, input, [
          ["volume", record.volume, input.volume],
          ["topology", (record.askedPlaces ?? []).map(sorted), input.topology.map(sorted)],
        ]);
        return view;
      },
      async () => {
        const [source] = await sourcesOf(deps, input.namespace, [input.volume]);
        if (source === undefined) throw volumeNotFound({ namespace: input.namespace, id: input.volume });
        const { volume, at: expected } = source;
        if (plugins.snapshotFacts(volume.plugin).snapshots === "no")
          throw pluginCannot(volume, volume.plugin, "plugin", "cut snapshots");
        if (input.topology.length > 0) {
          if (plugins.snapshotFacts(volume.plugin).places === "no")
            throw pluginCannot(volume, volume.plugin, "topology", "cut snapshots for places");
          checkKnownKeys(input.topology, volume.plugin, deps.nodes.list());
        }
        const record = (at: Moment): SnapshotRecord => ({
          ...common(input, caller, volume, { uid, name }, at),
          kind: "snapshot",
          volume: volume.id,
          volumeUid: volume.uid,
          externalVolumeId: volume.externalId,
          group: "",
          externalGroupId: "",
          sizeBytes: 0,
          ...(input.topology.length === 0 ? {} : { askedPlaces: input.topology }),
        });
        const refs = Object.values(secretsOf(input.secretRefs, volume));
        return { record, expects: [expected, ...(await deps.secrets.expected(refs))] };
      },
    );
    if (made === "taken") throw cutExists({ kind: "snapshot", ...input }, "state");
    return made;
  };

export const createGroupCommand =
  (deps: CommandDeps): SnapshotCommands["createGroup"] =>
  async (input, caller) => {
    validateCreateGroup(input, deps.secrets.granted);
    const { ids, plugins, cuts } = deps;
    const [uid, name] = [ids.uuid(), ids.uuid()];
    const uids = input.members.map(() => ids.uuid());
    const made = await insertOver(
      deps,
      input,
      caller,
      async () => {
        const view = await findGroup(cuts, input);
        if (view === undefined) return undefined;
        const members = view.record.members.map(({ volume, snapshot }) => ({ volume, snapshot }));
        compare(view.record, input, [
          ["members", members, input.members.map(({ volume, snapshot }) => ({ volume, snapshot }))],
        ]);
        return view;
      },
      async () => {
        const volumes = input.members.map(({ volume }) => volume);
        const sources = await sourcesOf(deps, input.namespace, volumes);
        const [first] = sources;
        if (first === undefined) throw volumeNotFound({ namespace: input.namespace, id: "" });
        const { plugin } = first.volume;
        const other = sources.find(({ volume }) => volume.plugin !== plugin);
        if (other !== undefined)
          throw pluginCannot(
            other.volume,
            plugin,
            "members",
            `cut volume ${volumeKey(other.volume)} of plugin ${other.volume.plugin} together with its own`,
          );
        if (plugins.snapshotFacts(plugin).groups === "no")
          throw pluginCannotCut(plugin, "plugin", "cut groups of volumes");
        await freeMembers(deps, input);
        const record = (at: Moment): GroupRecord => ({
          ...common(input, caller, first.volume, { uid, name }, at),
          kind: "group",
          members: sources.map(({ volume }, i) => ({
            snapshot: input.members[i]?.snapshot ?? "",
            uid: uids[i] ?? "",
            volume: volume.id,
            volumeUid: volume.uid,
            externalVolumeId: volume.externalId,
            externalId: "",
            sizeBytes: 0,
            cutAt: 0,
            ready: false,
          })),
          answeredIds: [],
        });
        const refs = Object.values(secretsOf(input.secretRefs, first.volume));
        return { record, expects: [...sources.map(({ at }) => at), ...(await deps.secrets.expected(refs))] };
      },
    );
    if (made !== "taken") return made;
    await freeMembers(deps, input);
    throw cutExists({ kind: "group", ...input }, "state");
  };

/** The ids that the group's snapshots shall have are free, or the one that is not is named. */
const freeMembers = async ({ cuts }: CommandDeps, { namespace, members }: CreateGroupInput): Promise<void> => {
  const found = await Promise.all(
    members.map(({ snapshot }) => cuts.get({ kind: "snapshot", namespace, id: snapshot })),
  );
  const taken = found.find((one) => one !== undefined);
  if (taken !== undefined) throw cutExists(taken.record, "group");
};
