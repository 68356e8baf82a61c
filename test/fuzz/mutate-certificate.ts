/** Certificates that were valid and are changed: bytes anywhere, or names in the place where names stand, with all lengths set right. */
import { derTags, readElements } from "@holdfast/shared/trust/der";
import type { SeededRandom } from "../local-driver/seeded-random.ts";

const alternativeNames = Buffer.from("0603551d11", "hex");

const encode = (tag: number, content: Buffer): Buffer => {
  const { length } = content;
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
};

/** The same tree with another value of the alternative names; everything around it is encoded anew. */
const withNames = (der: Buffer, value: Buffer): Buffer =>
  Buffer.concat(
    readElements(der).map(({ tag, content }) => {
      const bytes = Buffer.from(content);
      const holds = bytes.indexOf(alternativeNames);
      if (holds === 0) return encode(tag, Buffer.concat([alternativeNames, encode(derTags.octetString, value)]));
      // Only what is built of elements is looked into.
      return encode(tag, holds > 0 && (tag & 0x20) !== 0 ? withNames(bytes, value) : bytes);
    }),
  );

const domains = [
  "test.example",
  "a",
  "other.example",
  "test.example.",
  "Test.example",
  "test.example:1",
  "u@test.example",
  "",
];
const segments = [
  "csi",
  "node",
  "controller",
  "scheduler",
  "operator",
  "monitor",
  "n1",
  "c1",
  "..",
  ".",
  "",
  "ada",
  "%31",
  "local",
];
const odd = [
  "\0",
  "/",
  "//",
  ",",
  ", URI:",
  "?",
  "#",
  "%",
  "\xe9",
  "\n",
  " ",
  "@",
  ":",
  "..",
  "csi/",
  "-",
  "a".repeat(70),
];

const uriOf = (random: SeededRandom): string => {
  const role = random.pick(["node", "controller", "scheduler", "operator"]);
  const good = random.chance(0.2)
    ? "spiffe://test.example/csi/monitor"
    : `spiffe://test.example/csi/${role}/${random.pick(["n1", "c1", "ada"])}`;
  if (random.chance(0.4)) return good;
  if (random.chance(0.5)) {
    const at = random.integer(good.length + 1);
    return good.slice(0, at) + random.pick(odd) + good.slice(at + (random.chance(0.5) ? 1 : 0));
  }
  const path = Array.from({ length: 1 + random.integer(5) }, () => random.pick(segments)).join("/");
  return `${random.pick(["spiffe", "spiffe", "SPIFFE", "https"])}://${random.pick(domains)}/${path}`;
};

const nameOf = (random: SeededRandom): Buffer => {
  if (random.chance(0.6))
    return encode(random.chance(0.95) ? 0x86 : random.pick([0xa6, 0x81, 0x06]), Buffer.from(uriOf(random), "latin1"));
  const content = random.chance(0.3) ? `x${random.pick([", ", ",", "\0"])}URI:${uriOf(random)}` : "host.example";
  return encode(random.pick([0x82, 0x82, 0x82, 0x81, 0x87, 0x88, 0xa0, 0xa4]), Buffer.from(content, "latin1"));
};

const otherNames = (der: Buffer, random: SeededRandom): Buffer => {
  const names = Array.from({ length: random.pick([1, 1, 1, 1, 2, 2, 3, 0]) }, () => nameOf(random));
  return withNames(der, encode(derTags.sequence, Buffer.concat(names)));
};

const bytesOfInterest = [0x00, 0x01, 0x04, 0x06, 0x2f, 0x30, 0x7f, 0x80, 0x81, 0x82, 0x86, 0xa0, 0xa3, 0xff];

const otherBytes = (der: Buffer, random: SeededRandom): Buffer => {
  const bytes = Buffer.from(der);
  const at = random.integer(bytes.length);
  switch (random.integer(5)) {
    case 0:
      bytes[at] = (bytes[at] ?? 0) ^ (1 << random.integer(8));
      return bytes;
    case 1:
      bytes[at] = random.pick(bytesOfInterest);
      return bytes;
    case 2:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([random.integer(256)]), bytes.subarray(at)]);
    case 3:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.integer(4))]);
    default:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(random.integer(bytes.length))]);
  }
};

export const mutated = (der: Buffer, random: SeededRandom): Buffer => {
  const renamed = random.chance(0.6) ? otherNames(der, random) : der;
  const changes = renamed === der ? 1 + random.integer(3) : random.pick([0, 0, 1]);
  let bytes = renamed;
  for (let change = 0; change < changes; change += 1) bytes = otherBytes(bytes, random);
  return bytes;
};
