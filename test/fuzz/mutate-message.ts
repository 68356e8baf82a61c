/** An encoded message that was valid: with another field, or with other bytes. */
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import { otherBytes } from "./mutate-bytes.ts";
import { otherTree } from "./mutate-tree.ts";

export interface Encoder {
  encode(message: never): { finish(): Uint8Array };
}

const encoded = (type: Encoder, message: unknown): Uint8Array | undefined => {
  try {
    return type.encode(message as never).finish();
  } catch {
    // A number that the wire has no form for.
    return undefined;
  }
};

export const otherMessage = (type: Encoder, message: unknown, others: unknown, random: SeededRandom): Uint8Array => {
  const changed = encoded(type, otherTree(message, { random, json: false, others }));
  const bytes = changed ?? encoded(type, message) ?? new Uint8Array();
  return changed !== undefined && random.chance(0.75) ? bytes : otherBytes(bytes, random, bytes);
};
