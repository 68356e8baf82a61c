import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";

/** The errors of the store, worded once. */

export const storeUnavailable = (store: string, what: string, failure: Error): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_UNAVAILABLE",
    message: `the store ${store} did not answer (${what}): ${failure.message}; mounts and local releases go on, try again`,
    metadata: { store },
    cause: failure,
  });

export const storeOutcomeUnknown = (store: string, opId: string, why: string, cause?: unknown): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_OUTCOME_UNKNOWN",
    message: `the answer to a write of the store ${store} was lost (${why}): read before deciding anew`,
    metadata: { store, op_id: opId },
    cause,
  });

export const storeUnvetted = (store: string, finding: string): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_UNVETTED",
    message: `the store ${store} may have lost writes: ${finding}; nothing is granted until it is vetted, releases go on`,
    metadata: { store, finding },
  });

export const storeForeign = (store: string, found: string, own: string): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_UNAVAILABLE",
    message:
      found === ""
        ? `the store ${store} lost its identity (flushed, or another database): restore a backup or point the controller at the right one`
        : `the store ${store} holds the data of installation ${found}, this controller belongs to ${own}: correct the address`,
    metadata: { store, found, own },
  });

/** `oldest` is where the history begins now, as far as that is known. */
export const eventsTrimmed = (token: string, why: string, oldest = ""): HoldfastError =>
  new HoldfastError({
    kind: "out_of_range",
    reason: "EVENTS_TRIMMED",
    message: `events after ${token} are not all there any more (${why}): list again and watch from the new token`,
    metadata: { token, oldest_token: oldest },
  });
