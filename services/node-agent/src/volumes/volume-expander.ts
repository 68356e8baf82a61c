/**
 * Grows a volume that is published here. Nothing of it is journalled: NodeExpandVolume is idempotent and owes no undo, and
 * whoever wants it sends it again until it is answered for certain.
 */

import type { Vetting } from "@holdfast/model/vetting";
import type { ExpandResult } from "../domain/answer-types.ts";
import { judgeExpand, type Standing } from "../domain/judge-order.ts";
import { seenAt } from "../domain/mounts.ts";
import type { HeldClaim, VolumeRef, VolumeState } from "../domain/types.ts";
import type { ExpandOrder } from "../domain/volume-figures.ts";
import type { HostDirs, MountTable, NodePlugins } from "../ports.ts";
import { callHalt, failureOf, nameVolume, pluginAwayHalt } from "./halts.ts";
import { publishedDevice } from "./published-device.ts";

export interface ExpanderOptions {
  readonly plugins: NodePlugins;
  readonly mounts: Pick<MountTable, "look">;
  readonly dirs: Pick<HostDirs, "deviceNumber" | "deviceBytes">;
  readonly standing: (ref: VolumeRef, sender: Vetting | undefined) => Standing;
  readonly signal: AbortSignal;
}

/** To be called in the volume's lane: "one call in flight per volume". */
export function createExpander({ plugins, mounts, dirs, standing, signal }: ExpanderOptions) {
  return async (order: ExpandOrder): Promise<ExpandResult> => {
    const { ref } = order;
    const now = standing(ref, order.vetting);
    const refused = judgeExpand(now, order.nodeEpoch);
    if (refused !== undefined) return refused;
    const { volume } = now;
    const claim = volume === undefined ? undefined : publishedClaim(volume);
    if (volume === undefined || claim === undefined) return notHere(ref);
    const { target } = claim.facts;
    // "The path on which volume is available": a call for one where nothing is mounted would grow the host's own disk.
    const line = seenAt(await mounts.look(false), target);
    if (line === undefined) {
      const message = `${nameVolume(ref)}: nothing is mounted at ${target}; its permit brings the mount back, and then it can grow`;
      return { kind: "uncertain", halt: { reason: "MOUNT_MISSING", message, method: "", code: "" } };
    }
    const plugin = plugins.get(ref.plugin);
    if (plugin === undefined) return { kind: "uncertain", halt: pluginAwayHalt(ref, "its plugin is not there") };
    const stagingPath = volume.stage.needed ? volume.stage.path : "";
    const result = await plugin.expand(order, { ref, target, stagingPath }, signal);
    if (result.kind === "done") {
      const device = await publishedDevice(line, dirs);
      const deviceBytes = device && (await dirs.deviceBytes(device));
      const { capacityBytes } = result.value;
      return { kind: "expanded", capacityBytes, ...(deviceBytes === undefined ? {} : { deviceBytes }) };
    }
    const { failure } = result;
    if (result.kind === "unknown" || failure.advice !== "fail") {
      return { kind: "uncertain", halt: callHalt(ref, failure) };
    }
    const message = `${nameVolume(ref)}: ${failure.method} answered ${failure.code}: ${failure.message}`;
    return { kind: "not-expanded", failure: failureOf(failure), message };
  };
}

/** One that writes before one that reads: some drivers grow a file system only where it may be written. */
function publishedClaim({ claims }: VolumeState): HeldClaim | undefined {
  const published = Object.values(claims).filter(({ phase }) => phase === "published");
  return published.find(({ facts }) => !facts.readOnly) ?? published[0];
}

function notHere(ref: VolumeRef): ExpandResult {
  const message = `${nameVolume(ref)} is not published here: send what it has to grow to with its next permit (expand_to)`;
  return { kind: "not-expanded", failure: { reason: "VOLUME_NOT_HERE", method: "", code: "" }, message };
}
