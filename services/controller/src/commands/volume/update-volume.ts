import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import {
  addedCapabilities,
  type UpdateRefusal,
  updated,
  updateRefusal,
  type VolumeUpdate,
} from "../../domain/volume/volume-update.ts";
import type { CommandDeps } from "../command-deps.ts";
import { pluginNotReady, volumeInUse, volumeNotAvailable, volumeNotFound } from "../errors.ts";
import type { Commands } from "../model.ts";
import { validateUpdateVolume } from "./validate-volume.ts";

const refusalError = (volume: VolumeRecord, refusal: UpdateRefusal): HoldfastError => {
  if (refusal.kind === "state") return volumeNotAvailable(volume);
  const names = refusal.claims.map((c) => `claim of workload ${c.workload} (${c.alias}) on node ${c.node}, ${c.state}`);
  const [first] = refusal.claims;
  return volumeInUse(volume, names, { workload: first?.workload ?? "", node: first?.node ?? "" });
};

/** Somebody took away a capability about which the plugin was therefore not asked. */
const changedMeanwhile = (volume: VolumeRecord): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "REVISION_CONFLICT",
    message: `the capabilities of volume ${volumeKey(volume)} were changed at the same time; repeat the request`,
    metadata: { namespace: volume.namespace, volume: volume.id, revision: "" },
  });

const volumeBusy = (volume: VolumeRecord): HoldfastError =>
  new HoldfastError({
    kind: "aborted",
    reason: "VOLUME_BUSY",
    message: `volume ${volumeKey(volume)} has a call in progress (${volume.intent?.op ?? ""}), and its plugin ${volume.plugin} is asked about new capabilities after that; repeat after a pause`,
    metadata: {
      namespace: volume.namespace,
      volume: volume.id,
      operation: volume.intent?.op ?? "",
      node: volume.intent?.node ?? "",
    },
  });

/** New capabilities are asked about first, so that nothing is promised that the plugin denies; asking changes nothing. */
const askAbout = async (
  { plugins }: CommandDeps,
  volume: VolumeRecord,
  update: VolumeUpdate,
  signal: AbortSignal,
): Promise<void> => {
  const { plugin } = volume;
  const { ready, reason, controllerService } = plugins.facts(plugin);
  if (addedCapabilities(volume, update).length === 0 || controllerService === "no") return;
  if (!ready) throw pluginNotReady(plugin, reason);
  // Whoever is using the controller plugin for it goes first: one call for a volume at a time.
  if (volume.intent !== undefined) throw volumeBusy(volume);
  // Its size was judged when it came, and may have been changed since.
  const capacity = { required: 0, limit: 0, actual: volume.capacity.actual };
  const asked = { ...volume, capacity, capabilities: update.capabilities ?? volume.capabilities };
  const outcome = await plugins.validateVolume(asked, { signal, attempt: 1 });
  if (outcome.kind === "done") return;
  const { failure } = outcome;
  if (outcome.kind === "unknown" || failure.advice === "block") throw pluginNotReady(plugin, failure.message);
  throw new HoldfastError({
    kind: "precondition",
    reason: "CAPABILITY_MISMATCH",
    message: `${failure.message}; ask for capabilities that the storage has`,
    metadata: { namespace: volume.namespace, volume: volume.id, plugin, field: "capabilities", wanted: "", has: "" },
  });
};

/**
 * Changes what is Holdfast's own. What was asked of the plugin holds for the life of the volume that was read: the record is changed only
 * while it is that one. What stands in the record already is no change, whatever its revision: a repeat after a lost answer is OK.
 */
export const updateVolumeCommand =
  (deps: CommandDeps): Commands["updateVolume"] =>
  async (input, caller, signal) => {
    const { records, secrets } = deps;
    validateUpdateVolume(input, secrets.granted);
    const { update } = input;
    const found = await records.get(input);
    if (found === undefined) throw volumeNotFound(input);
    const early = updateRefusal(found.volume, update);
    if (early !== undefined) throw refusalError(found.volume, early);
    await askAbout(deps, found.volume, update, signal);
    const known = new Set(
      found.volume.capabilities.concat(addedCapabilities(found.volume, update)).map((one) => JSON.stringify(one)),
    );
    const result = await records.change(
      input,
      (volume, at) => {
        if (volume.uid !== found.volume.uid) throw volumeNotFound(input);
        const refusal = updateRefusal(volume, update);
        if (refusal !== undefined) throw refusalError(volume, refusal);
        if (addedCapabilities(volume, update).some((one) => !known.has(JSON.stringify(one))))
          throw changedMeanwhile(volume);
        const change = updated(volume, update, at);
        if (change.volume === null || change.volume === volume) return change;
        return { ...change, volume: { ...change.volume, changedBy: { who: caller.who, why: caller.why } } };
      },
      {
        expectedRev: input.expectedRevision === 0 ? undefined : input.expectedRevision,
        by: caller,
        expects: () => secrets.expected(Object.values(update.secretRefs ?? {})),
      },
    );
    if (result.volume === null) throw volumeNotFound(input);
    return { volume: result.volume, rev: result.rev };
  };
