import { DriverError } from "./driver-error.ts";
import type { FsType } from "./records.ts";

/** Sizes of images. They are whole blocks: loop devices, filesystems and snapshot metadata all count in them. */

export const blockBytes = 4096n;
const mebibyte = 1n << 20n;

/** mkfs.xfs refuses less than 300 MiB; an ext4 below 16 MiB has no room for its journal. */
export const minimumBytes: Readonly<Record<FsType | "raw", bigint>> = {
  ext4: 16n * mebibyte,
  xfs: 300n * mebibyte,
  raw: mebibyte,
};

/** The largest file of an ext4 with blocks of 4 KiB, and the largest that every filesystem for a state directory can hold. */
export const maximumBytes = ((1n << 32n) - 1n) * blockBytes;

/** As of CSI's CapacityRange: 0 is not given. */
export interface SizeRange {
  readonly requiredBytes: bigint;
  readonly limitBytes: bigint;
}

export interface SizeRules {
  readonly minimum: bigint;
  /** When no size is asked. */
  readonly usual: bigint;
  /** Of the source; 0 without one. */
  readonly source: bigint;
}

export const roundUp = (bytes: bigint): bigint => ((bytes + blockBytes - 1n) / blockBytes) * blockBytes;
export const roundDown = (bytes: bigint): bigint => (bytes / blockBytes) * blockBytes;

/** The size of a new image: the least that does, or the usual one. OUT_OF_RANGE when no size is in the range. */
export function imageBytes(range: SizeRange, rules: SizeRules): bigint {
  const lowest = roundUp(greatest(range.requiredBytes, rules.minimum, rules.source));
  const highest = range.limitBytes > 0n ? least(roundDown(range.limitBytes), maximumBytes) : maximumBytes;
  if (lowest > highest) throw new DriverError("OUT_OF_RANGE", whyNone(range, rules));
  if (range.requiredBytes > 0n || rules.source > 0n) return lowest;
  return greatest(lowest, least(roundUp(rules.usual), highest));
}

/** Directories have no size of their own: the number is a note, and 0 is "unknown". */
export function notedBytes(range: SizeRange, source: bigint): bigint {
  const lowest = greatest(range.requiredBytes, source);
  if (range.limitBytes > 0n && lowest > range.limitBytes)
    throw new DriverError(
      "OUT_OF_RANGE",
      `limit_bytes ${range.limitBytes} is below ${lowest}, the size of the source; ask for a higher limit`,
    );
  return lowest;
}

function whyNone({ requiredBytes, limitBytes }: SizeRange, { minimum, source }: SizeRules): string {
  if (requiredBytes > maximumBytes)
    return `required_bytes ${requiredBytes} is above ${maximumBytes}, the most that an image may have`;
  if (limitBytes > 0n && source > limitBytes)
    return `limit_bytes ${limitBytes} is below ${source}, the size of the source; ask for a higher limit`;
  if (limitBytes > 0n && minimum > limitBytes)
    return `limit_bytes ${limitBytes} is below ${minimum}, the least that such a volume needs; ask for a higher limit`;
  return `no multiple of ${blockBytes} lies between required_bytes ${requiredBytes} and limit_bytes ${limitBytes}; widen the range`;
}

export const greatest = (...values: readonly bigint[]): bigint => values.reduce((a, b) => (a > b ? a : b));
export const least = (...values: readonly bigint[]): bigint => values.reduce((a, b) => (a < b ? a : b));
