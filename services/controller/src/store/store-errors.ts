import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { formatsText, type StoreFormats } from "../domain/store-format.ts";
import type { AggregateRef } from "../domain/store-types.ts";
import { CallFailure } from "./redis/call-failure.ts";

/** The errors of the store, worded once. */

const cureOfDamage =
  "it is left as it is, and what needs it is not done; stop the controllers and restore the store from a backup (holdfast import, docs/operations.md)";

/** A record that cannot be read: never taken for one that is absent. */
export const recordDamaged = ({ kind, key }: AggregateRef, damage: string, cause?: unknown): HoldfastError =>
  new HoldfastError({
    kind: "data_loss",
    reason: "RECORD_DAMAGED",
    message: `the record ${kind} ${key} in the store is damaged: ${damage}; ${cureOfDamage}`,
    metadata: { kind, key, damage },
    cause,
  });

/** A field of the identity of the store that cannot be read. While it stands nothing is committed. */
export const metaDamaged = (store: string, field: string, found: string): HoldfastError =>
  new HoldfastError({
    kind: "data_loss",
    reason: "RECORD_DAMAGED",
    message: `the store ${store} is damaged: its ${field} is "${found}", not a whole number; nothing is written to it; stop the controllers and restore it from a backup (holdfast import, docs/operations.md)`,
    metadata: { kind: "meta", key: field, damage: found },
  });

const wholeNumber = /^\d{1,16}$/;

/** A number of the identity of the store, which must be one. */
export const metaNumber = (store: string, field: string, text: string): number => {
  const number = Number(text);
  if (!wholeNumber.test(text) || !Number.isSafeInteger(number)) throw metaDamaged(store, field, text);
  return number;
};

const didWhat = (failure: Error): string =>
  failure instanceof CallFailure && failure.certainty === "refused" ? "refused" : "did not answer";

export const storeUnavailable = (store: string, what: string, failure: Error): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_UNAVAILABLE",
    message: `the store ${store} ${didWhat(failure)} (${what}): ${failure.message}; mounts and local releases go on, try again`,
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

export const newerText = (found: number, formats: StoreFormats): string =>
  `is format ${found}, this release reads ${formatsText(formats)}: run the release that wrote it, or a newer one`;

export const wayBack =
  "The way back to this release is a backup from before the upgrade was finished, in an empty store (holdfast import, docs/operations.md).";

/** While this process ran, the format was raised beyond what it reads. */
export const storeNewer = (store: string, found: number, formats: StoreFormats): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "STORE_SCHEMA_NEWER",
    message: `the store ${store} ${newerText(found, formats)}. Nothing is written to it from here. ${wayBack}`,
    metadata: { store, format: String(found) },
  });
