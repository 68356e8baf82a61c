/** Numbers and times that agents tell. What a number rounds would compare as another one, and of a time that no calendar has nothing can be made. */
import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";
import type { ClaimNews } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { Epoch } from "@holdfast/shared/gen/holdfast/v1/common";

const most = BigInt(Number.MAX_SAFE_INTEGER);

export const checkNumber = (field: string, value: bigint): readonly FieldViolation[] =>
  value >= 0n && value <= most ? [] : [{ field, description: `must be 0 to ${most}` }];

export const checkEpoch = (field: string, epoch: Epoch | undefined): readonly FieldViolation[] => [
  ...checkNumber(`${field}.gen`, epoch?.gen ?? 0n),
  ...checkNumber(`${field}.ctr`, epoch?.ctr ?? 0n),
];

const checkTime = (field: string, time: Date | undefined): readonly FieldViolation[] =>
  Number.isNaN(time?.getTime()) ? [{ field, description: "must be a time" }] : [];

export const checkNews = (field: string, { ailing, call }: ClaimNews): readonly FieldViolation[] => [
  ...checkTime(`${field}.ailing.since`, ailing?.since),
  ...checkTime(`${field}.call.since`, call?.since),
  ...checkTime(`${field}.call.deadline`, call?.deadline),
];
