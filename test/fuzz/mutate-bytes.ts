/** Changes of bytes that know nothing of what the bytes mean. */
import type { SeededRandom } from "../local-driver/seeded-random.ts";

const bytesOfInterest = [0x00, 0x01, 0x08, 0x0a, 0x0d, 0x12, 0x20, 0x22, 0x2f, 0x7b, 0x7d, 0x7f, 0x80, 0xff];

/** `other`: bytes of the corpus, a part of which may take the place of ours. */
export const otherBytes = (bytes: Uint8Array, random: SeededRandom, other: Uint8Array): Buffer => {
  const at = random.integer(bytes.length + 1);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  const changed = (byte: number): Buffer => Buffer.concat([before, Buffer.from([byte & 0xff]), after.subarray(1)]);
  switch (random.integer(7)) {
    case 0:
      return changed((after[0] ?? 0) ^ (1 << random.integer(8)));
    case 1:
      return changed(random.pick(bytesOfInterest));
    case 2:
      return changed((after[0] ?? 0) + random.pick([1, -1]));
    case 3:
      return Buffer.concat([before, Buffer.from([random.integer(256)]), after]);
    case 4:
      return Buffer.concat([before, after.subarray(1 + random.integer(4))]);
    case 5:
      return Buffer.from(before);
    default: {
      const from = random.integer(other.length + 1);
      return Buffer.concat([
        before,
        other.subarray(from, from + random.integer(64)),
        random.chance(0.5) ? after : other.subarray(from),
      ]);
    }
  }
};
