/** Why a run stopped, in words that name the volume, the plugin, the call, and what to do next. */
import { showEpoch } from "@holdfast/model/epoch";
import { fenceCommand, releaseCommand } from "@holdfast/model/operator-command";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Ailment } from "../domain/ailment.ts";
import type { AgentBlockReason, BlockingHalt, Halt } from "../domain/answer-types.ts";
import type { Leftover } from "../domain/mounts.ts";
import type { MountFailure, PermitFacts, VolumeRef } from "../domain/types.ts";
import type { CallFailure } from "../ports.ts";

export const nameVolume = (ref: VolumeRef): string => `volume ${ref.namespace}/${ref.volume} (plugin ${ref.plugin})`;

/** Words for blocks that have one; the others say what the plugin answered. */
const blockReasons: Readonly<Record<string, AgentBlockReason>> = {
  NOT_FOUND: "NOT_AT_BACKEND",
  ALREADY_EXISTS: "INCOMPATIBLE",
  PERMISSION_DENIED: "CREDENTIALS_REFUSED",
  UNAUTHENTICATED: "CREDENTIALS_REFUSED",
};

type Claimed = Pick<PermitFacts, "workload" | "alias">;

/** What a person does before the same call, which is made again by itself, can be answered OK. */
const callCure = (ref: VolumeRef, { method, code, needs }: CallFailure, claim: Claimed | undefined): string => {
  const goesOn = "and it goes on by itself within a minute";
  if (code === "NOT_FOUND") {
    const forGood = claim === undefined ? "" : `; when it is gone for good: ${releaseCommand(ref.namespace, claim)}`;
    return `bring it back at the backend of plugin ${ref.plugin}, ${goesOn}${forGood}`;
  }
  // CSI: these two carry no secret.
  const bare = method === "NodeUnstageVolume" || method === "NodeUnpublishVolume";
  return bare && blockReasons[code] === "CREDENTIALS_REFUSED"
    ? `give plugin ${ref.plugin} on this node credentials that its backend accepts, ${goesOn}`
    : `${needs}, ${goesOn}`;
};

/** `claim`: the one that the call was made for, while it is wanted. */
export function callHalt(ref: VolumeRef, failure: CallFailure, claim?: Claimed): Halt {
  const { method, code, advice, sent } = failure;
  const said = failure.message === "" ? "" : `: ${failure.message}`;
  const message = sent
    ? `${nameVolume(ref)}: ${method} answered ${code}${said}`
    : `${nameVolume(ref)}: ${method} was not sent${said}`;
  if (advice !== "block") {
    return { reason: sent ? code : "PLUGIN_NOT_READY", message, method, code };
  }
  return {
    reason: blockReasons[code] ?? "PLUGIN_REFUSED",
    message,
    method,
    code,
    blocked: { missingProof: `an OK of ${method} from plugin ${ref.plugin}`, clearWith: callCure(ref, failure, claim) },
  };
}

export const failureOf = (failure: CallFailure): MountFailure => ({
  reason: blockReasons[failure.code] ?? "PLUGIN_REFUSED",
  method: failure.method,
  code: failure.code,
});

/** Why a claim ended without a mount, when the words of the day are no longer known. */
export const endWords = (ref: VolumeRef, { reason, method, code }: MountFailure): string =>
  `${nameVolume(ref)}: ${method === "" ? `it was refused here (${reason})` : `${method} answered ${code} (${reason})`}`;

export function pluginAwayHalt(ref: VolumeRef, why: string): Halt {
  const message = `${nameVolume(ref)}: ${why}; it goes on as soon as the plugin can be called`;
  return { reason: "PLUGIN_NOT_READY", message, method: "", code: "" };
}

/** `served`: every mount of the volume that the same process serves, the topmost first. */
export function ailmentHalt(
  ref: VolumeRef,
  kind: Ailment,
  path: string,
  served: readonly string[] = [path],
): BlockingHalt {
  const name = nameVolume(ref);
  if (kind === "hung") {
    return {
      reason: "MOUNT_HUNG",
      message: `${name}: what is mounted at ${path} does not answer; processes that use it hang until it does`,
      method: "",
      code: "",
      blocked: {
        missingProof: `an answer of the file system at ${path}`,
        clearWith: `bring back what serves it (plugin ${ref.plugin}, or its backend)`,
      },
    };
  }
  return {
    reason: "MOUNT_DEAD",
    message: `${name}: the process that served the mount at ${path} is gone; it is mounted anew when its permit comes, and the workload has to be restarted to see it`,
    method: "",
    code: "",
    blocked: {
      missingProof: `that nothing dead is mounted at ${path}`,
      clearWith: `umount --lazy ${served.join(" ")}`,
    },
  };
}

export function notSeenHalt(ref: VolumeRef, target: string): Halt {
  return {
    reason: "MOUNT_NOT_SEEN",
    message: `${nameVolume(ref)}: NodePublishVolume answered OK and nothing is mounted at ${target}: the plugin mounts where this host does not see it`,
    method: "NodePublishVolume",
    code: "OK",
    blocked: {
      missingProof: `a mount at ${target} in the agent's mount namespace`,
      clearWith: `run plugin ${ref.plugin} with bidirectional mount propagation for the agent's root directory`,
    },
  };
}

/** `said`: what umount(8) answered the agent, which has tried it. */
export function stillMountedHalt(ref: VolumeRef, method: string, code: string, path: string, said?: string): Halt {
  const tried = said === undefined ? "" : `, and the agent could not unmount it: ${said}`;
  const clearWith =
    said === undefined ? `umount ${path}` : `end what uses it (fuser -vm ${path}), then: umount ${path}`;
  return {
    reason: "STILL_MOUNTED",
    message: `${nameVolume(ref)}: ${path} is still a mount point after ${method} answered ${code}${tried}`,
    method,
    code,
    blocked: { missingProof: `that ${path} is no mount point`, clearWith },
  };
}

export function askedAgainHalt(ref: VolumeRef, method: string, code: string, path: string): Halt {
  return {
    reason: "STILL_MOUNTED",
    message: `${nameVolume(ref)}: ${path} is still a mount point after ${method} answered ${code}; the plugin is asked once more, then the agent unmounts it itself unless a process uses it`,
    method,
    code,
  };
}

/** `path`: of the mount; `holder.path`: what the process has open there. */
export function heldOpenHalt(
  ref: VolumeRef,
  holder: Leftover,
  path: string,
  { method, code, message }: Pick<CallFailure, "method" | "code" | "message">,
): Halt {
  const { pid, command } = holder;
  const said = message === "" ? "" : `: ${message}`;
  return {
    reason: "MOUNT_HELD",
    message: `${nameVolume(ref)}: process ${pid} (${command ?? "?"}) uses ${holder.path}, and ${path} stays mounted; ${method} answered ${code}${said}`,
    method,
    code,
    blocked: heldBlock(holder),
    holder,
  };
}

const heldBlock = ({ pid }: Leftover) => ({
  missingProof: `that process ${pid} no longer has the mount`,
  clearWith: `end process ${pid}, or what started it: kill ${pid}`,
});

export function leftoverHalt(ref: VolumeRef, left: Leftover): Halt {
  const { path, pid, command } = left;
  if (pid === undefined) {
    return {
      reason: "ORPHAN_MOUNT",
      message: `${nameVolume(ref)}: ${path} is still mounted and nothing in the journal explains it`,
      method: "",
      code: "",
      blocked: { missingProof: `that nothing of the volume is mounted at ${path}`, clearWith: `umount ${path}` },
      holder: left,
    };
  }
  return {
    reason: "MOUNT_HELD",
    message: `${nameVolume(ref)}: process ${pid} (${command ?? "?"}) keeps it mounted at ${path} in its own mount namespace`,
    method: "",
    code: "",
    blocked: heldBlock(left),
    holder: left,
  };
}

export function orphanHalt(ref: VolumeRef, path: string): Halt {
  return {
    reason: "ORPHAN_MOUNT",
    message: `${nameVolume(ref)}: ${path} is mounted and no claim in the journal explains it; no other claim can have the volume here before it is released`,
    method: "",
    code: "",
    blocked: {
      missingProof: `whose mount ${path} is`,
      clearWith: `when nothing needs it: umount ${path}; what else stands so: holdfast repair scan --kind mount`,
    },
  };
}

export function changedHalt(ref: VolumeRef, facts: PermitFacts): Halt {
  return {
    reason: "PERMIT_CHANGED",
    message: `${nameVolume(ref)}: the permit of claim ${facts.claimUid} under epoch ${showEpoch(facts.epoch)} came with other contexts or flags than before`,
    method: "",
    code: "",
    blocked: {
      missingProof: "which of the two permits is right",
      clearWith: `${releaseCommand(ref.namespace, facts)}; then claim it again`,
    },
  };
}

export function noTokensHalt(ref: VolumeRef, { reason, message }: HoldfastError): Halt {
  const words = `${nameVolume(ref)}: NodePublishVolume waits for its identity tokens: ${message}`;
  return { reason, message: words, method: "", code: "" };
}

/** `cure`: what a person does before the same call can be answered OK; empty: the message says it. */
export function republishHalt(
  ref: VolumeRef,
  { message, method = "", code = "", cure }: { message: string; method?: string; code?: string; cure: string },
): BlockingHalt {
  return {
    reason: "REPUBLISH_FAILING",
    message: `${nameVolume(ref)}: NodePublishVolume, which its plugin wants again, cannot be repeated, and what is mounted stays as it is: ${message}`,
    method,
    code,
    blocked: {
      missingProof: `an OK of NodePublishVolume from plugin ${ref.plugin}`,
      clearWith: `${cure === "" ? "do what the message asks for" : cure}, and it goes on by itself within a minute`,
    },
  };
}

export function damagedHalt(ref: VolumeRef, damage: string, node: string): BlockingHalt {
  return {
    reason: "JOURNAL_DAMAGED",
    message: `${nameVolume(ref)}: ${damage}`,
    method: "",
    code: "",
    blocked: {
      missingProof: "what the agent had journalled of this volume",
      clearWith: `stop the agent, restore its state directory, start it again, and admit that life as this says: holdfast node status ${node}; or stop the agent, switch the machine off: ${fenceCommand(node)}; then start the agent with an empty state directory`,
    },
  };
}

export function noEndHalt(ref: VolumeRef): Halt {
  const message = `${nameVolume(ref)}: its mount keeps vanishing; the same order again goes on`;
  return { reason: "MOUNT_MISSING", message, method: "", code: "" };
}

export function journalDamaged(why: string): HoldfastError {
  return new HoldfastError({ kind: "precondition", reason: "JOURNAL_DAMAGED", message: why });
}

/** Throws, if there is a reason. */
export function refuseFull(why: string | undefined): void {
  if (why !== undefined) throw new HoldfastError({ kind: "exhausted", reason: "JOURNAL_FULL", message: why });
}
