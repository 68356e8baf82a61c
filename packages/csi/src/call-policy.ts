/**
 * How long each RPC may take and which codes are worth asking again at once: one line per RPC, for a storage engineer to
 * review. Nothing that changes the world is ever repeated here: an unknown outcome belongs to the reconciler, which
 * stores before it asks again. Deadlines are where every plugin starts; what a plugin was seen to need may raise them.
 */
import type { CsiMethod } from "./methods.ts";
import type { Code } from "./outcome.ts";

export interface CallPolicy {
  readonly deadlineMs: number;
  /** Repeated inside the call, within its deadline, once the plugin is ready again. Empty for all that mutates. */
  readonly retryCodes: readonly Code[];
  /** Attempts in all. */
  readonly attempts: number;
}

const second = 1_000;

/** A call that has lasted so long is told to people while it lasts. */
export const longCallMs = 3 * second;

/** A broken connection says nothing about a question: it is asked again when the plugin is back. */
const question = (deadlineMs: number): CallPolicy => ({ deadlineMs, retryCodes: ["UNAVAILABLE"], attempts: 3 });
/** Health is the answer itself: a missed probe is a report, not something to smooth over. */
const probe = (deadlineMs: number): CallPolicy => ({ deadlineMs, retryCodes: [], attempts: 1 });
const once = (deadlineMs: number): CallPolicy => ({ deadlineMs, retryCodes: [], attempts: 1 });

export const callPolicy: Readonly<Record<CsiMethod, CallPolicy>> = {
  Probe: probe(5 * second),
  GetPluginInfo: probe(5 * second),
  GetPluginCapabilities: probe(5 * second),

  CreateVolume: once(60 * second),
  DeleteVolume: once(60 * second),
  ControllerPublishVolume: once(60 * second),
  ControllerUnpublishVolume: once(60 * second),
  ValidateVolumeCapabilities: question(60 * second),
  ListVolumes: question(60 * second),
  GetCapacity: question(60 * second),
  ControllerGetCapabilities: probe(5 * second),
  CreateSnapshot: once(60 * second),
  DeleteSnapshot: once(60 * second),
  ListSnapshots: question(60 * second),
  GetSnapshot: question(60 * second),
  ControllerExpandVolume: once(60 * second),
  ControllerGetVolume: question(60 * second),
  ControllerModifyVolume: once(60 * second),
  ControllerListVolumeHealth: question(60 * second),
  ControllerGetVolumeHealth: question(60 * second),

  GroupControllerGetCapabilities: probe(5 * second),
  CreateVolumeGroupSnapshot: once(60 * second),
  DeleteVolumeGroupSnapshot: once(60 * second),
  GetVolumeGroupSnapshot: question(60 * second),

  // Per message, not for the whole stream: a large delta takes as long as it takes, a silent plugin does not.
  GetMetadataAllocated: once(60 * second),
  GetMetadataDelta: once(60 * second),

  NodeStageVolume: once(120 * second),
  NodeUnstageVolume: once(120 * second),
  NodePublishVolume: once(120 * second),
  NodeUnpublishVolume: once(120 * second),
  // A hung filesystem hangs this one first; whoever asks for figures does not wait as long as a mount.
  NodeGetVolumeStats: question(30 * second),
  // Asked about what is wrong already: a plugin that takes longer has nothing to add to the failure.
  NodeGetVolumeHealth: question(5 * second),
  NodeGetStorageHealth: question(30 * second),
  NodeExpandVolume: once(120 * second),
  NodeGetCapabilities: probe(5 * second),
  NodeGetInfo: probe(15 * second),
};

/** Codes that are never asked again inside a call, of whatever method: the second answer would be the same, or worse. */
export const neverRetried: readonly Code[] = [
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
  "FAILED_PRECONDITION",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "ABORTED",
  "RESOURCE_EXHAUSTED",
  "INTERNAL",
  "UNKNOWN",
  "DATA_LOSS",
  "CANCELLED",
  "DEADLINE_EXCEEDED",
];
