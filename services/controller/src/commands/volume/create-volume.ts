import { zeroEpoch } from "@holdfast/model/epoch";
import { volumeNote } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import type { VolumeRecord, VolumeSource } from "../../domain/volume/volume.ts";
import { isRegistered } from "../../domain/volume/volume-registration.ts";
import type { ControllerPlugins } from "../../ports.ts";
import type { CommandDeps } from "../command-deps.ts";
import {
  pluginAmbiguous,
  pluginCannot,
  pluginNotFound,
  sourceChanged,
  storeUnvetted,
  volumeExists,
  volumeLeaving,
  volumeNotFound,
} from "../errors.ts";
import type { Caller, Commands, CreateVolumeInput, VolumeView } from "../model.ts";
import { bornVolume } from "./born-volume.ts";
import { findContentSource } from "./content-source.ts";
import { withKnownInline, withStoredInline } from "./inline-secrets.ts";
import { type Content, commonContent, digestOf, firstDifference, sorted } from "./same-content.ts";
import { validateCreateVolume } from "./validate-volume.ts";

/**
 * What makes two requests for one id the same, in the order in which a difference is named. The volume may have been changed since: the
 * request that made it is the same for ever, and so is one for what the volume is now.
 */
const content = (v: CreateVolumeInput | VolumeRecord): Content => [
  ...commonContent(v),
  ["topology.required", v.topology.required.map(sorted)],
  ["topology.preferred", v.topology.preferred.map(sorted)],
  ["content_source", v.contentSource],
  ["binding", "uid" in v ? v.binding !== undefined : v.lateBinding === true],
];

/** Not part of the digest, so that it stays what earlier releases stored. */
const lifetimeOf = ({ ephemeral }: CreateVolumeInput | VolumeRecord): string =>
  ephemeral === undefined ? "" : `${ephemeral.workload}\n${ephemeral.alias}`;

export const differsFrom = (input: CreateVolumeInput, volume: VolumeRecord): string | undefined =>
  volume.asked === digestOf(content(input)) ? undefined : firstDifference(content(input), content(volume));

export const differs = (input: CreateVolumeInput, volume: VolumeRecord): string | undefined => {
  if (isRegistered(volume)) return "external_id";
  // It may go with the others of its set, which is not what is asked for here.
  if (volume.restore !== undefined) return "restore";
  return lifetimeOf(input) === lifetimeOf(volume) ? differsFrom(input, volume) : "lifetime";
};

/** What the plugin is known not to do is refused before anything is written; what is not known yet waits. */
export const checkPlugin = (input: CreateVolumeInput, plugins: ControllerPlugins): void => {
  if (!plugins.names().includes(input.plugin)) throw pluginNotFound(input.plugin);
  const facts = plugins.facts(input.plugin);
  if (facts.ambiguous === true) throw pluginAmbiguous(input.plugin, facts.reason);
  if (facts.createsVolumes === "no") throw pluginCannot(input, input.plugin, "plugin", "create volumes");
  if (
    facts.singleNodeMultiWriter === "no" &&
    input.capabilities.some((c) => c.accessMode === "SINGLE_NODE_MULTI_WRITER")
  )
    throw pluginCannot(input, input.plugin, "access_mode", "share a volume among workloads of one node");
};

/** The record with its name and its intent is durable before the plugin is called: nothing is made that nobody knows of (I4). */
export const newVolume = (
  input: CreateVolumeInput,
  caller: Caller,
  uid: string,
  made: { readonly name: string; readonly source: VolumeSource | undefined },
  at: Moment,
): VolumeRecord => ({
  ...bornVolume(input, caller, uid, at),
  name: made.name,
  externalId: "",
  topology: { required: input.topology.required, preferred: input.topology.preferred, accessible: [] },
  contentSource: input.contentSource,
  ...(made.source === undefined ? {} : { source: made.source }),
  context: {},
  asked: digestOf(content(input)),
  ...(input.ephemeral === undefined ? {} : { ephemeral: input.ephemeral }),
  ...(input.lateBinding === true
    ? { binding: { node: "", place: {} } }
    : { intent: { op: "create", epoch: zeroEpoch, issuer: at.issuer, opId: at.opId } }),
});

export const createVolumeCommand =
  (deps: CommandDeps): Commands["createVolume"] =>
  async (asked, caller) => {
    const { records, ids, gate, plugins, secrets } = deps;
    validateCreateVolume(asked, secrets.granted);
    const known = await withKnownInline(secrets, asked);
    const standing = await existing(deps, known ?? asked);
    if (standing !== undefined) return standing;
    checkPlugin(asked, plugins);
    if (!gate.state().open) throw storeUnvetted(gate.state().reason);
    const found = await findContentSource(deps, asked);
    const input = await withStoredInline(secrets, asked, caller);
    const uid = ids.uuid();
    const name = ids.uuid();
    const make = (at: Moment) => {
      const volume = newVolume(input, caller, uid, { name, source: found?.source }, at);
      return { volume, ended: [], notes: [volumeNote(volume)] };
    };
    await records.insert(make, async () => [
      ...(await secrets.expected(Object.values(input.secretRefs))),
      // The volume holds on to its source from the very commit on that finds the source fit.
      ...(found === undefined ? [] : sameSource(input, found.source, await findContentSource(deps, input))),
    ]);
    // Ours, or that of somebody who asked for the same id at the same time.
    const made = await existing(deps, input, true);
    if (made === undefined) throw volumeNotFound(input);
    return made;
  };

/** Another life of the source's id is another source: what was decided for the first one is not stored. */
const sameSource = (
  input: CreateVolumeInput,
  decided: VolumeSource,
  now: Awaited<ReturnType<typeof findContentSource>>,
): NonNullable<typeof now>["expects"] => {
  if (now?.source.uid === decided.uid && now.source.sizeBytes === decided.sizeBytes) return now.expects;
  throw sourceChanged(input);
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
