import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { volumeNote } from "../domain/change.ts";
import { zeroEpoch } from "../domain/epoch.ts";
import { noAttempts } from "../domain/outcome.ts";
import { type VolumeRecord, volumeKey } from "../domain/volume.ts";
import type { ControllerPlugins } from "../ports.ts";
import type { CommandDeps } from "./command-deps.ts";
import {
  pluginCannot,
  pluginNotFound,
  storeUnvetted,
  volumeExists,
  volumeLeaving,
  volumeNotAvailable,
  volumeNotFound,
} from "./errors.ts";
import type { Caller, Commands, CreateVolumeInput, VolumeView } from "./model.ts";
import { validateCreateVolume } from "./validate-volume.ts";

/** What makes two requests for one id the same, in the order in which a difference is named. */
const content = (v: CreateVolumeInput | VolumeRecord): readonly (readonly [field: string, value: unknown])[] => [
  ["plugin", v.plugin],
  ["capacity.required_bytes", v.capacity.required],
  ["capacity.limit_bytes", v.capacity.limit],
  ["capabilities", v.capabilities],
  ["parameters", sorted(v.parameters)],
  ["mutable_parameters", sorted(v.mutableParameters)],
  ["topology.required", v.topology.required.map(sorted)],
  ["topology.preferred", v.topology.preferred.map(sorted)],
  ["content_source", v.contentSource],
  ["secrets", sorted(v.secretRefs)],
  ["labels", sorted(v.labels)],
  ["policy", v.policy],
];

const sorted = (map: object) => Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));

const differs = (input: CreateVolumeInput, volume: VolumeRecord): string | undefined => {
  const has = content(volume);
  return content(input).find(([, value], i) => JSON.stringify(value) !== JSON.stringify(has[i]?.[1]))?.[0];
};

/** What the plugin is known not to do is refused before anything is written; what is not known yet waits. */
const checkPlugin = (input: CreateVolumeInput, plugins: ControllerPlugins): void => {
  if (!plugins.names().includes(input.plugin)) throw pluginNotFound(input.plugin);
  const facts = plugins.facts(input.plugin);
  if (facts.createsVolumes === "no") throw pluginCannot(input, input.plugin, "plugin", "create volumes");
  if (
    facts.singleNodeMultiWriter === "no" &&
    input.capabilities.some((c) => c.accessMode === "SINGLE_NODE_MULTI_WRITER")
  )
    throw pluginCannot(input, input.plugin, "access_mode", "share a volume among workloads of one node");
};

const checkSource = async ({ records }: CommandDeps, input: CreateVolumeInput): Promise<void> => {
  const { contentSource, namespace } = input;
  if (contentSource.kind === "none") return;
  if (contentSource.kind === "snapshot")
    throw new HoldfastError({
      kind: "not_found",
      reason: "SNAPSHOT_NOT_FOUND",
      message: `there is no snapshot ${namespace}/${contentSource.id}; correct the id`,
      metadata: { namespace, snapshot: contentSource.id },
    });
  const source = await records.recent({ namespace, id: contentSource.id });
  if (source === undefined) throw volumeNotFound({ namespace, id: contentSource.id });
  if (source.volume.state !== "AVAILABLE") throw volumeNotAvailable(source.volume);
  if (source.volume.plugin !== input.plugin)
    throw pluginCannot(
      input,
      input.plugin,
      "content_source",
      `read volume ${volumeKey(source.volume)} of plugin ${source.volume.plugin}`,
    );
};

/** The record with its name and its intent is durable before the plugin is called: nothing is made that nobody knows of (I4). */
const newVolume = (
  input: CreateVolumeInput,
  caller: Caller,
  made: {
    readonly uid: string;
    readonly name: string;
    readonly issuer: string;
    readonly opId: string;
    readonly now: number;
  },
): VolumeRecord => ({
  namespace: input.namespace,
  id: input.id,
  uid: made.uid,
  name: made.name,
  externalId: "",
  plugin: input.plugin,
  pluginVersion: "",
  parameters: input.parameters,
  mutableParameters: input.mutableParameters,
  capabilities: input.capabilities,
  capacity: { required: input.capacity.required, limit: input.capacity.limit, actual: 0 },
  topology: { required: input.topology.required, preferred: input.topology.preferred, accessible: [] },
  contentSource: input.contentSource,
  context: {},
  secretRefs: input.secretRefs,
  labels: input.labels,
  policy: input.policy,
  state: "CREATING",
  goal: "present",
  epoch: zeroEpoch,
  claims: {},
  attachments: {},
  bars: [],
  intent: { op: "create", epoch: zeroEpoch, issuer: made.issuer, opId: made.opId },
  attempts: noAttempts,
  requestId: input.requestId,
  ...(caller.traceparent === undefined ? {} : { trace: { parent: caller.traceparent, at: made.now } }),
  createdAt: made.now,
  updatedAt: made.now,
  stateSince: made.now,
  changedBy: { who: caller.who, why: caller.why },
});

export const createVolumeCommand =
  (deps: CommandDeps): Commands["createVolume"] =>
  async (input, caller) => {
    const { records, ids, gate, plugins } = deps;
    validateCreateVolume(input);
    const standing = await existing(deps, input);
    if (standing !== undefined) return standing;
    checkPlugin(input, plugins);
    if (!gate.state().open) throw storeUnvetted(gate.state().reason);
    await checkSource(deps, input);
    const uid = ids.uuid();
    const name = ids.uuid();
    await records.insert((at) => {
      const volume = newVolume(input, caller, { uid, name, issuer: at.issuer, opId: at.opId, now: at.now });
      return { volume, ended: [], notes: [volumeNote(volume)] };
    });
    // Ours, or that of somebody who asked for the same id at the same time.
    const made = await existing(deps, input, true);
    if (made === undefined) throw volumeNotFound(input);
    return made;
  };

const existing = async (
  { records }: CommandDeps,
  input: CreateVolumeInput,
  remembered = false,
): Promise<VolumeView | undefined> => {
  const found = remembered ? await records.recent(input) : await records.get(input);
  if (found === undefined) return undefined;
  if (found.volume.goal === "absent") throw volumeLeaving(input);
  const field = differs(input, found.volume);
  if (field !== undefined) throw volumeExists(input, field);
  return found;
};
