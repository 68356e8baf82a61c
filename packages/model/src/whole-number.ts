/** Of an int64 of the wire. Some plugins answer its largest value for "without a bound"; what a number cannot hold is told as the most that it can. */
export const wholeNumber = (value: bigint): number =>
  Number(value > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : value);
