/**
 * A workload's id is its scheduler's own word. It is a key of records and a part of messages, and never of a path: directories are named
 * by hashes.
 */
const maxBytes = 256;
/** What no person sees, or what turns the order of the letters around it: it could pass for another id. The same in every version of Unicode. */
const unprintable = /[\p{Cc}\p{Cs}\u2028\u2029\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/u;

const bytesOf = (text: string): number => {
  let bytes = 0;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
};

/** Why the text is none; undefined when it is one. */
export const workloadIdFault = (text: string): string | undefined => {
  if (text === "") return "is required";
  if (bytesOf(text) > maxBytes) return `is longer than ${maxBytes} bytes`;
  if (text.includes("/")) return 'must not hold "/"';
  if (unprintable.test(text)) return "must hold printable characters only";
  return /^\s|\s$/u.test(text) ? "must not begin or end with a space" : undefined;
};
