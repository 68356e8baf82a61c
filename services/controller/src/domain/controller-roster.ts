/**
 * The controllers of a cell, as they said of themselves in the store.
 *
 * T1 A controller stands on it once, as it spoke last. T2 It is on it for an hour after it spoke, by the clock of whoever looks. T3 It
 * holds `mostControllers` at most, and drops those that were silent longest. It only spares a controller that would be shut out; what
 * keeps the store from one that cannot read it is the store itself, at each commit.
 */
import { reads, type StoreFormats } from "./store-format.ts";

export interface KnownController {
  readonly id: string;
  readonly version: string;
  readonly formats: StoreFormats;
  readonly seenAt: number;
}

export const onRecordMs = 3_600_000;
export const mostControllers = 256;

export const stillKnown = (controllers: readonly KnownController[], now: number): readonly KnownController[] =>
  controllers.filter(({ seenAt }) => now - seenAt < onRecordMs); // T2

export const withController = (
  controllers: readonly KnownController[],
  one: KnownController,
): readonly KnownController[] =>
  [one, ...stillKnown(controllers, one.seenAt).filter(({ id }) => id !== one.id)] // T1
    .sort((a, b) => b.seenAt - a.seenAt)
    .slice(0, mostControllers); // T3

/** Those that could not go on in a store of this format. */
export const shutOutBy = (controllers: readonly KnownController[], format: number): readonly KnownController[] =>
  controllers.filter(({ formats }) => !reads(formats, format));
