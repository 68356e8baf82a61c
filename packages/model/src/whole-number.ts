/** Reads an int64 of the wire. Some plugins answer the largest int64 for "without a bound": a value above the largest safe integer becomes that integer. */
export const wholeNumber = (value: bigint): number =>
  Number(value > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : value);
