import { zeroEpoch } from "@holdfast/model/epoch";
import { volumeNote } from "../../domain/change.ts";
import type { Moment } from "../../domain/moment.ts";
import type { AuditedAs } from "../../domain/repair/audit.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { isRegistered } from "../../domain/volume/volume-registration.ts";
import type { CommandDeps } from "../command-deps.ts";
import {
  pluginAmbiguous,
  pluginNotFound,
  storageLeaving,
  storageTaken,
  storeUnvetted,
  volumeExists,
  volumeLeaving,
  volumeNotFound,
} from "../errors.ts";
import type { Caller, Commands, RegisterVolumeInput, VolumeView } from "../model.ts";
import { bornVolume } from "./born-volume.ts";
import { withKnownInline, withStoredInline } from "./inline-secrets.ts";
import { type Content, commonContent, digestOf, firstDifference, sorted } from "./same-content.ts";
import { validateRegisterVolume } from "./validate-volume.ts";

const content = (v: RegisterVolumeInput, context: RegisterVolumeInput["context"]): Content => [
  ["external_id", v.externalId],
  ...commonContent(v),
  ["context", sorted(context)],
];

const askedOf = (input: RegisterVolumeInput): string =>
  digestOf([...content(input, input.context), ["accessible_topology", input.accessible.map(sorted)]]);

/** What the plugin tells of the places is kept when the caller named none: then it is no difference. */
const placesDiffer = ({ accessible }: RegisterVolumeInput, volume: VolumeRecord): boolean =>
  accessible.length > 0 &&
  JSON.stringify(accessible.map(sorted)) !== JSON.stringify(volume.topology.accessible.map(sorted));

const differs = (input: RegisterVolumeInput, volume: VolumeRecord): string | undefined => {
  if (!isRegistered(volume)) return "external_id";
  if (volume.asked === askedOf(input)) return undefined;
  const known = { ...volume, accessible: volume.topology.accessible };
  const field = firstDifference(content(input, input.context), content(known, volume.context));
  return field ?? (placesDiffer(input, volume) ? "accessible_topology" : undefined);
};

const newVolume = (
  input: RegisterVolumeInput,
  caller: Caller,
  uid: string,
  vouched: boolean,
  at: Moment,
): VolumeRecord => ({
  ...bornVolume(input, caller, uid, at),
  name: "",
  externalId: input.externalId,
  topology: { required: [], preferred: [], accessible: input.accessible },
  contentSource: { kind: "none" },
  context: input.context,
  asked: askedOf(input),
  ...(vouched ? { vouched: true } : {}),
  intent: { op: "validate", epoch: zeroEpoch, issuer: at.issuer, opId: at.opId },
});

const existing = async (
  { records }: CommandDeps,
  input: RegisterVolumeInput,
  remembered: boolean,
): Promise<VolumeView | undefined> => {
  const found = remembered ? await records.recent(input) : await records.get(input);
  if (found === undefined) return undefined;
  if (found.volume.goal === "absent") throw volumeLeaving(input);
  const field = differs(input, found.volume);
  if (field !== undefined) throw volumeExists(input, field);
  return found;
};

/**
 * Stores the record of storage that exists, which the reconciler then asks the plugin about. One record for each storage: that no other
 * has it, and that no delete of it can still arrive, is compared by the commit that stores it. `vouched` is an operator's word that the
 * storage is nobody else's: that no such call can come any more, and that whatever the backend has it attached to does not use it.
 */
export const registerVolumeCommand =
  (deps: CommandDeps, vouched = false, audit?: AuditedAs): Commands["registerVolume"] =>
  async (asked, caller) => {
    const { records, ids, gate, plugins, secrets } = deps;
    validateRegisterVolume(asked, secrets.granted);
    const known = await withKnownInline(secrets, asked);
    const standing = await existing(deps, known ?? asked, false);
    if (standing !== undefined) return standing;
    if (!plugins.names().includes(asked.plugin)) throw pluginNotFound(asked.plugin);
    const facts = plugins.facts(asked.plugin);
    if (facts.ambiguous === true) throw pluginAmbiguous(asked.plugin, facts.reason);
    if (!gate.state().open) throw storeUnvetted(gate.state().reason);
    const input = await withStoredInline(secrets, asked, caller);
    const uid = ids.uuid();
    const make = (at: Moment) => {
      const volume = newVolume(input, caller, uid, vouched, at);
      return { volume, ended: [], notes: [volumeNote(volume)], ...(audit === undefined ? {} : { audit }) };
    };
    const adopted = await records.adopt(make, {
      inSpite: vouched,
      expects: () => secrets.expected(Object.values(input.secretRefs)),
    });
    if (adopted.kind === "leaving") throw storageLeaving(input, input, adopted.mark);
    if (adopted.kind === "taken") throw storageTaken(input, input, (await records.owner(input))?.volume);
    // Ours, or that of somebody who asked for the same id at the same time.
    const made = await existing(deps, input, true);
    if (made === undefined) throw volumeNotFound(input);
    return made;
  };
