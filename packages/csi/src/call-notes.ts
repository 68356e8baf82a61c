/**
 * What a holder of sockets keeps of its attaches and detaches beyond its own life. After its end nobody else can tell that one of them
 * may be open at the plugin.
 *
 * K1 A call is noted in the turn in which it leaves, before it does; one that cannot be noted does not leave. K2 The note stands until
 * nothing of its subject is open or in doubt.
 */
import type { UnaryMethod } from "./methods.ts";

export interface CallNote {
  readonly subject: string;
  /** Of the newest order that the call has. */
  readonly opId: string;
  /** Equal for every detach of a pair. */
  readonly words: string;
}

/** Of one plugin. */
export interface CallNotes {
  /** In the place of the subject's last note; throws where it cannot be kept. */
  note(call: CallNote): void;
  /** K2 */
  strike(subject: string): void;
  /** The plugin itself answered a detach with these words. */
  detached(words: string): void;
}

export const keepsNothing: CallNotes = { note: () => undefined, strike: () => undefined, detached: () => undefined };

/** undefined: what the method does takes a volume from no node. */
export function noteWords(method: UnaryMethod, request: object, subject: string): string | undefined {
  if (method !== "ControllerPublishVolume" && method !== "ControllerUnpublishVolume") return undefined;
  return `${method} for ${subject} at ${"nodeId" in request ? String(request.nodeId) : ""}`;
}
