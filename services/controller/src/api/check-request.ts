import { msOfDuration } from "@holdfast/model/wire-duration";
import { type FieldViolation, invalidArgument, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Duration } from "@holdfast/shared/gen/google/protobuf/duration";
import { checkOptionalId, checkWorkload } from "../domain/limits.ts";
import { defaultTtlSeconds } from "../domain/plugin/publishing.ts";

/** Collects what is wrong with a message while it is turned into the domain's words. */
export interface Checks {
  complain(field: string, description: string): void;
  readonly violations: readonly FieldViolation[];
}

export const createChecks = (): Checks => {
  const violations: FieldViolation[] = [];
  return { violations, complain: (field, description) => void violations.push({ field, description }) };
};

/**
 * Everything that is wrong, at once: what only the message could show, and what the command's own check finds in the rest. Without
 * complaints of our own the command is left to check for itself.
 */
export const refuseAll = ({ violations }: Checks, validate: () => void): void => {
  if (violations.length === 0) return;
  const named = new Set(violations.map(({ field }) => field));
  try {
    validate();
  } catch (error) {
    if (!isHoldfastError(error) || error.kind !== "invalid") throw error;
    throw invalidArgument([...violations, ...error.violations.filter(({ field }) => !named.has(field))]);
  }
  throw invalidArgument(violations);
};

/** An id that a filter may leave empty. */
export const optionalId = (field: string, id: string | undefined, checks: Checks): string => {
  for (const { description } of checkOptionalId(field, id ?? "")) checks.complain(field, description);
  return id ?? "";
};

export const optionalWorkload = (field: string, workload: string | undefined, checks: Checks): string => {
  for (const { description } of workload ? checkWorkload(field, workload) : []) checks.complain(field, description);
  return workload ?? "";
};

/** Whole milliseconds, as the store takes its times; a part of one counts as one. undefined for none given. */
export const durationMs = (field: string, duration: Duration | undefined, checks: Checks): number | undefined => {
  if (duration === undefined) return undefined;
  const ms = msOfDuration(duration);
  if (ms === undefined) checks.complain(field, "has to be a duration of zero or more");
  return ms;
};

/** How long a token is valid; a part of a second counts as one. */
export const ttlSeconds = (field: string, duration: Duration | undefined, checks: Checks): number =>
  Math.ceil((durationMs(field, duration, checks) ?? defaultTtlSeconds * 1000) / 1000);
