/**
 * Reads DER, and nothing that only resembles it: lengths are definite and in their shortest form, tags have one byte, an element ends
 * where its parent ends or before. Bytes that an element does not explain are a fault.
 */

export interface DerElement {
  readonly tag: number;
  readonly content: Uint8Array;
}

/** Thrown by every reader here; the message is for people. */
export class DerFault extends Error {}

export const derTags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
} as const;

/** The elements that these bytes consist of. */
export function readElements(bytes: Uint8Array): readonly DerElement[] {
  const found: DerElement[] = [];
  for (let at = 0; at < bytes.length; ) {
    const tag = byteAt(bytes, at);
    if ((tag & 0x1f) === 0x1f) throw new DerFault("a tag has more than one byte");
    const { length, start } = readLength(bytes, at + 1);
    if (length > bytes.length - start) throw new DerFault("an element is longer than what it is in");
    found.push({ tag, content: bytes.subarray(start, start + length) });
    at = start + length;
  }
  return found;
}

/** The elements of the only element in these bytes, which has this tag. */
export function readOnly(bytes: Uint8Array, tag: number, what: string): readonly DerElement[] {
  const [element, ...rest] = readElements(bytes);
  if (rest.length > 0) throw new DerFault(`${what} is followed by something`);
  return readElements(contentOf(element, tag, what));
}

export function contentOf(element: DerElement | undefined, tag: number, what: string): Uint8Array {
  if (element?.tag !== tag) throw new DerFault(`${what} is not where it belongs`);
  return element.content;
}

/** Reads them one after the other; `end` refuses those that are left. */
export function createDerCursor(elements: readonly DerElement[]) {
  let at = 0;
  return {
    take(tag: number, what: string): Uint8Array {
      const content = contentOf(elements[at], tag, what);
      at += 1;
      return content;
    },
    takeIf(tag: number): Uint8Array | undefined {
      if (elements[at]?.tag !== tag) return undefined;
      at += 1;
      return elements[at - 1]?.content;
    },
    end(what: string): void {
      if (at < elements.length) throw new DerFault(`${what} has more than it may have`);
    },
  };
}

export function readTrue(content: Uint8Array, what: string): void {
  if (content.length !== 1 || content[0] !== 0xff) throw new DerFault(`${what} is no true value of DER`);
}

/** Milliseconds since 1970. */
export function readTime({ tag, content }: DerElement): number {
  const text = String.fromCharCode(...content.subarray(0, 16));
  if (tag === derTags.utcTime && /^\d{12}Z$/.test(text))
    return momentOf(`${Number(text.slice(0, 2)) < 50 ? "20" : "19"}${text}`);
  if (tag === derTags.generalizedTime && /^\d{14}Z$/.test(text)) return momentOf(text);
  throw new DerFault("a time is not in the form that certificates have");
}

/** Of YYYYMMDDhhmmssZ. A day that no calendar has is a fault, and not the day after. */
function momentOf(text: string): number {
  const [, year, month, day, hour, minute, second] = /^(....)(..)(..)(..)(..)(..)Z$/.exec(text) ?? [];
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
  const moment = Date.parse(iso);
  if (Number.isNaN(moment) || new Date(moment).toISOString() !== iso) throw new DerFault("a time does not exist");
  return moment;
}

/** More are never needed here: a certificate is bounded before it is read. */
const maxLengthBytes = 3;

function readLength(bytes: Uint8Array, at: number): { readonly length: number; readonly start: number } {
  const first = byteAt(bytes, at);
  if (first < 0x80) return { length: first, start: at + 1 };
  const count = first & 0x7f;
  if (count === 0 || count > maxLengthBytes) throw new DerFault("a length is indefinite or too large");
  let length = 0;
  for (let i = 1; i <= count; i += 1) length = length * 256 + byteAt(bytes, at + i);
  if (length < 0x80 || length < 256 ** (count - 1)) throw new DerFault("a length is not in its shortest form");
  return { length, start: at + 1 + count };
}

function byteAt(bytes: Uint8Array, at: number): number {
  const byte = bytes[at];
  if (byte === undefined) throw new DerFault("it ends too early");
  return byte;
}
