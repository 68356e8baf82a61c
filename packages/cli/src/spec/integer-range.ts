/** Whole numbers of a spec file. They are read from the text: a number of the language rounds what is larger than it can hold. */
import { ScalarType } from "@bufbuild/protobuf";

const signed = (bits: bigint) => ({ least: -(1n << (bits - 1n)), most: (1n << (bits - 1n)) - 1n });
const unsigned = (bits: bigint) => ({ least: 0n, most: (1n << bits) - 1n });

const ranges: ReadonlyMap<ScalarType, { readonly least: bigint; readonly most: bigint }> = new Map([
  [ScalarType.INT32, signed(32n)],
  [ScalarType.SINT32, signed(32n)],
  [ScalarType.SFIXED32, signed(32n)],
  [ScalarType.UINT32, unsigned(32n)],
  [ScalarType.FIXED32, unsigned(32n)],
  [ScalarType.INT64, signed(64n)],
  [ScalarType.SINT64, signed(64n)],
  [ScalarType.SFIXED64, signed(64n)],
  [ScalarType.UINT64, unsigned(64n)],
  [ScalarType.FIXED64, unsigned(64n)],
]);

/** undefined: the field is for no whole number. */
export const integerRange = (type: ScalarType) => ranges.get(type);

/** What is written in another way, such as 1e3 or 0x10, is taken when nothing of it is rounded. */
export const integerIn = (value: unknown, source: string | undefined): bigint | undefined => {
  if (typeof value !== "number" || !Number.isInteger(value)) return undefined;
  if (Number.isSafeInteger(value)) return BigInt(value);
  return source !== undefined && /^-?\d+$/.test(source) ? BigInt(source) : undefined;
};
