/**
 * What the reader of certificates accepts has to be what Node and a library of its own read in the same bytes. The other two are slow, and
 * neither is used for judging callers.
 */
import { X509Certificate } from "node:crypto";
import { oracleNames } from "@holdfast/shared/testing/oracle-names";
import { createTestAuthority } from "@holdfast/shared/testing/test-authority";
import { isUnfit, readLeaf } from "@holdfast/shared/trust/leaf";
import { formatSpiffeId, parseSpiffeId } from "@holdfast/shared/trust/spiffe-id";
import { fuzzTests } from "./fuzz-tests.ts";
import { mutated } from "./mutate-certificate.ts";

type Reader = typeof readLeaf;

const authority = await createTestAuthority();
const issue = async (wish: Parameters<typeof authority.issue>[0]) => (await authority.issue(wish)).der;
const uri = { type: "url", value: "spiffe://test.example/csi/node/n1" } as const;
const corpus = await Promise.all([
  issue({ path: "csi/node/n1" }),
  issue({ path: "csi/monitor" }),
  issue({ path: `csi/operator/${"a".repeat(120)}` }),
  issue({ path: "csi/controller/c1", serial: `7f${"ab".repeat(18)}` }),
  issue({ notAfter: Date.UTC(2060, 0, 1) }),
  issue({ names: [{ type: "dns", value: "n1.example" }, uri, { type: "ip", value: "10.0.0.1" }] }),
  issue({ names: [uri, { type: "url", value: "spiffe://test.example/csi/controller/c1" }] }),
  issue({ isAuthority: true }),
]);

/** What is wrong with having accepted these bytes; undefined: nothing. "unread": Node does not read them, so that TLS hands on none such. */
const judge = (der: Buffer, reading: Exclude<ReturnType<Reader>, { wrong: string }>): string | undefined => {
  let node: X509Certificate;
  try {
    node = new X509Certificate(der);
  } catch {
    return "unread";
  }
  const shown = formatSpiffeId(reading.id);
  const uris = oracleNames(der);
  const told = (node.subjectAltName ?? "").match(/(?:"(?:\\.|[^"\\])*"|[^,"])+/g) ?? [];
  const own = told.map((entry) => entry.trim()).filter((entry) => entry.startsWith("URI:"));
  if (uris !== undefined && (uris.length !== 1 || uris[0] !== shown))
    return `the library reads ${JSON.stringify(uris)}, and ${shown} was accepted`;
  if (own.length !== 1 || own[0] !== `URI:${shown}`)
    return `Node reads ${node.subjectAltName}, and ${shown} was accepted`;
  if (node.ca) return "it is an authority";
  if (node.serialNumber !== reading.serial) return `serial ${reading.serial} for ${node.serialNumber}`;
  if (node.validToDate.getTime() !== reading.notAfter) return "its end is another one";
  return undefined;
};

const fromText = (der: Uint8Array, pick: (text: string) => string | undefined): ReturnType<Reader> =>
  withId(der, (node) => pick(node.subjectAltName ?? ""));

const fromNames = (
  der: Uint8Array,
  pick: (uris: readonly string[]) => string | undefined,
  authorities = false,
): ReturnType<Reader> => withId(der, () => pick(oracleNames(Buffer.from(der)) ?? []), authorities);

const withId = (
  der: Uint8Array,
  pick: (node: X509Certificate) => string | undefined,
  authorities = false,
): ReturnType<Reader> => {
  try {
    const node = new X509Certificate(der);
    const id = parseSpiffeId(pick(node) ?? "");
    if (id === undefined || (node.ca && !authorities)) return { wrong: "its URI" };
    return {
      id,
      serial: node.serialNumber,
      notBefore: node.validFromDate.getTime(),
      notAfter: node.validToDate.getTime(),
    };
  } catch (error) {
    return { wrong: String(error) };
  }
};

fuzzTests<Reader, Buffer>({
  name: "the reader of certificates",
  full: 1_000_000,
  quick: 5_000,
  findWithin: 20_000,
  subject: readLeaf,
  target: (read) => ({
    next: (random) => mutated(random.pick(corpus), random),
    examine(der) {
      const reading = read(der);
      // As many reach the names, and are not ended by the form of the bytes.
      if (isUnfit(reading)) return { reached: reading.wrong.includes("URI"), accepted: false };
      const wrong = judge(der, reading);
      return wrong === "unread" ? { reached: true, accepted: false } : { reached: true, accepted: true, wrong };
    },
    show: (der) => der.toString("base64"),
  }),
  /** Ways in which such readers were wrong elsewhere. */
  planted: [
    [
      "splits the text of Node at commas",
      (der) =>
        fromText(der, (text) =>
          text
            .split(", ")
            .filter((one) => one.startsWith("URI:"))
            .at(-1)
            ?.slice(4),
        ),
    ],
    ["takes the first of several names", (der) => fromNames(der, (uris) => uris[0])],
    [
      "ends a name at a NUL",
      (der) => fromNames(der, (uris) => (uris.length === 1 ? uris[0]?.split("\0")[0] : undefined)),
    ],
    [
      "takes letters of either case",
      (der) => fromNames(der, (uris) => (uris.length === 1 ? uris[0]?.toLowerCase() : undefined)),
    ],
    ["takes an authority", (der) => fromNames(der, (uris) => (uris.length === 1 ? uris[0] : undefined), true)],
  ],
});
