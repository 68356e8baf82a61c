/** How a call ended, by what was answered. */
import { methods, type UnaryMethod } from "./methods.ts";
import { verdictOf } from "./outcome.ts";
import type { WireReply } from "./transport.ts";

/** A thing that was not taken away is still there: a refusal to do so is no end, as it may be tried with another secret. */
const takesAway: ReadonlySet<UnaryMethod> = new Set<UnaryMethod>([
  "DeleteVolume",
  "ControllerUnpublishVolume",
  "DeleteSnapshot",
  "DeleteVolumeGroupSnapshot",
]);

/** A longer answer is not kept: the same order is stale after it. */
const keptBytes = 16_384;

/** `aborted`: the plugin says that an operation on the subject goes on. */
export type CallEnd = "ended" | "aborted" | "lost" | "not-sent";

export function endOf(answer: WireReply): CallEnd {
  if ("bytes" in answer) return "ended";
  const { sent, answered, code } = answer.failure;
  if (!sent) return "not-sent";
  if (answered !== true) return "lost";
  return code === "ABORTED" ? "aborted" : "ended";
}

/** The answer after which the call does not run again under its order. */
export function finalOf(method: UnaryMethod, answer: WireReply): { readonly answer?: WireReply } | undefined {
  if ("bytes" in answer) return answer.bytes.length > keptBytes ? {} : { answer };
  const { code, answered } = answer.failure;
  const { outcome } = verdictOf(methods[method].callKind, code);
  const certain = outcome === "done" || (outcome === "refused" && !takesAway.has(method));
  return answered === true && certain ? { answer } : undefined;
}
