/** The agent's journal after a disk, a copy or a hand changed it: read as it was written, cut where a crash tore it, or damaged. */
import { crc32 } from "node:zlib";
import {
  encodeFrame,
  encodeHeader,
  type JournalReading,
  readJournal,
} from "../../services/node-agent/src/volumes/journal-format.ts";
import { foldRecords } from "../../services/node-agent/src/volumes/ledger.ts";
import type { SeededRandom } from "../local-driver/seeded-random.ts";
import { fuzzTests } from "./fuzz-tests.ts";
import { otherBytes } from "./mutate-bytes.ts";
import { otherTree } from "./mutate-tree.ts";

interface Reader {
  readonly read: (bytes: Buffer) => JournalReading;
  readonly fold: typeof foldRecords;
}
interface Input {
  readonly bytes: Buffer;
  /** Its contents were changed, and its checksums made anew. */
  readonly forged: boolean;
}

const epoch = (ctr: number) => ({ gen: 1, ctr });
const ref = { namespace: "ns", volume: "data", volumeUid: "u-1", externalId: "e-1", plugin: "p" };
const facts = (claimUid: string, ctr: number) => ({
  ...{ claimUid, workload: "w", alias: "a", epoch: epoch(ctr), nodeEpoch: 1, accessMode: "SINGLE_NODE_WRITER" },
  ...{ attachmentMode: "FILE_SYSTEM", readOnly: false, fsType: "ext4", digest: "d", target: "/hf/t" },
});
const permit = (uid: string, ctr: number) => ({
  ...{ type: "permit", ref, facts: facts(uid, ctr), floor: epoch(ctr - 1), stageNeeded: true, stagePath: "/hf/s" },
  found: { stage: false, target: false },
});
const sight = { marks: [{ device: "8:1", root: "/" }], before: [3] };
const place = { container: "c", path: "/data", readOnly: false, propagation: "private" };
const volumes = [{ alias: "a", volume: "data", readOnly: false, places: [place] }];
const workload = { namespace: "ns", workload: "w" };
const wanted = { ...workload, type: "wanted", digest: "d", volumes };
const held = { facts: facts("k-8", 7), phase: "published", goal: "mounted", mountId: 40 };
const stage = { phase: "staged", needed: true, path: "/hf/s", shown: [39], ...sight };
const rewritten = {
  ref: { ...ref, volumeUid: "u-2" },
  ...{ floor: epoch(6), dead: [{ claimUid: "k-9", epoch: epoch(8), late: true }], stage, claims: { "k-8": held } },
};
const agentFacts = {
  ...{ nodeEpoch: 1, clusterUid: "c", promisedGen: 1, promisedTo: "v", bootId: "b-1" },
  workloads: { "ns/w": { ...workload, phase: "wanted", digest: "d", volumes, claimUids: {} } },
};
const of = (r: unknown) => ({ v: ref.volumeUid, r });
const framesOf: readonly (readonly unknown[])[] = [
  [{ f: agentFacts }, { s: rewritten }],
  [{ a: { type: "boot", bootId: "b-1" } }, { a: { type: "node-epoch", nodeEpoch: 1, clusterUid: "c" } }],
  [{ a: { type: "promised-gen", gen: 1, uid: "v" } }],
  [of(permit("k-1", 5)), of({ type: "stage-intent" })],
  [of({ type: "staged", shown: [], ...sight }), of({ type: "publish-intent", claimUid: "k-1" })],
  [of({ type: "published", claimUid: "k-1", mountId: 41, shown: [40], ...sight })],
  [{ a: { type: "workload", record: wanted } }],
  [{ a: { type: "workload", record: { ...workload, type: "claimed", claimUids: { a: "k-1" } } } }],
  [{ a: { type: "docker", record: { volume: "data", type: "wanted", id: "m-1", daemon: "d-1" } } }],
  [of({ type: "unpublish-intent", claimUid: "k-1" }), of({ type: "unpublished", claimUid: "k-1" })],
  [of({ type: "unstage-intent" }), of({ type: "unstaged" })],
  [of({ type: "released", claimUid: "k-1", epoch: epoch(5), late: false })],
  [of({ type: "dead", ref, claimUid: "k-0", epoch: epoch(9), late: true })],
];
const header = { format: 1, uid: "journal-1", machine: "m-1" };
const encoded = (head: object, frames: readonly unknown[][]): Buffer[] => [
  encodeHeader(head as typeof header),
  ...frames.map((records, at) => encodeFrame(at + 1, records)),
];
const frames = encoded(header, framesOf as unknown[][]);
const written = framesOf.map((records) => JSON.stringify(records));

/** Whole lines are taken out, said twice, or change places. */
const shuffled = (random: SeededRandom): Buffer => {
  const lines = [...frames];
  const [line = Buffer.alloc(0)] = lines.splice(1 + random.integer(lines.length - 1), 1);
  if (random.chance(0.6)) lines.splice(1 + random.integer(lines.length), 0, line);
  if (random.chance(0.2)) lines.splice(1 + random.integer(lines.length), 0, line);
  return Buffer.concat(lines);
};

const next = (random: SeededRandom): Input => {
  if (random.chance(0.4)) {
    const change = { random, json: true, others: framesOf } as const;
    const head = random.chance(0.2) ? otherTree<object>(header, change) : header;
    return { bytes: Buffer.concat(encoded(head, otherTree(framesOf as unknown[][], change))), forged: true };
  }
  if (random.chance(0.3)) return { bytes: shuffled(random), forged: false };
  const whole = Buffer.concat(frames);
  return { bytes: random.chance(0.05) ? whole : otherBytes(whole, random, whole), forged: false };
};

const sumOf = (line: string): string =>
  crc32(Buffer.from(line.slice(9), "latin1"))
    .toString(16)
    .padStart(8, "0");

/** By lines of text, and without the reader's code: what was written stands in front, and nothing but a torn end is left out. */
const wrongWhole = (bytes: Buffer, records: readonly unknown[]): string | undefined => {
  const lines = bytes.toString("latin1").split("\n");
  const last = lines.pop() ?? "";
  const count = written.findIndex((_, at) => framesOf.slice(0, at).flat().length === records.length);
  const prefix = framesOf.slice(0, count < 0 ? framesOf.length : count);
  if (JSON.stringify(records) !== JSON.stringify(prefix.flat())) return "it is not what was written first";
  const good = lines.filter((line) => line.slice(0, 8) === sumOf(line));
  const torn = last === "" && (lines.at(-1) ?? "").includes("\0".repeat(8)) ? 1 : 0;
  if (lines.length - good.length > torn) return "a line does not check, and it is none that a crash tore";
  const unbroken = last !== "" && last.slice(0, 8) === sumOf(last) ? 1 : 0;
  return good.length + unbroken === prefix.length + 1 || last !== "" ? undefined : "a line that checks was left out";
};

const numbers = /^(gen|ctr|nodeEpoch|promisedGen)$/;
const wrongNumber = (value: unknown, name = ""): string | undefined => {
  if (numbers.test(name)) return Number.isSafeInteger(value) && Number(value) >= 0 ? undefined : `${name} is ${value}`;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    const wrong = wrongNumber(item, key);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
};

/** The same lines with checksums and numbers as they should be. */
const mended = (bytes: Buffer, keep: (line: string) => boolean, number: boolean): Buffer => {
  const lines = bytes.toString("latin1").split("\n").slice(0, -1).filter(keep);
  const payloads = lines.map((line, at) =>
    number && at > 0 ? line.slice(9).replace(/^\[\d+/, `[${at}`) : line.slice(9),
  );
  return Buffer.from(payloads.map((text) => `${sumOf(`${"x".repeat(9)}${text}`)} ${text}\n`).join(""), "latin1");
};

const allCheck = (bytes: Buffer): boolean => {
  const lines = bytes.toString("latin1").split("\n");
  return lines.pop() === "" && lines.every((line) => line.slice(0, 8) === sumOf(line));
};

const subject: Reader = { read: readJournal, fold: foldRecords };

fuzzTests<Reader, Input>({
  name: "the reader of the agent's journal",
  full: 200_000,
  quick: 3_000,
  findWithin: 10_000,
  subject,
  target: ({ read, fold }) => ({
    next,
    examine({ bytes, forged }) {
      const reading = read(bytes);
      const reached = reading.kind === "good" || (reading.kind === "damaged" && reading.journal !== undefined);
      if (reading.kind !== "good") return { reached, accepted: false };
      const { header: found, records } = reading.journal;
      const { fault, agent, volumes } = fold(records);
      const wrong = forged
        ? fault === undefined
          ? wrongNumber([records, agent, ...volumes.values()])
          : undefined
        : (wrongWhole(bytes, records) ?? fault);
      const head = found.format === 1 && found.uid !== "" ? undefined : "its header is none";
      return { reached, accepted: fault === undefined, wrong: wrong ?? head };
    },
    show: ({ bytes }) => bytes.toString("latin1"),
  }),
  planted: [
    ["does not compare checksums", { ...subject, read: (bytes) => readJournal(mended(bytes, () => true, false)) }],
    [
      "leaves out a line that does not check",
      { ...subject, read: (bytes) => readJournal(mended(bytes, (line) => line.slice(0, 8) === sumOf(line), true)) },
    ],
    [
      "takes what it could read for all of it",
      {
        ...subject,
        read(bytes) {
          const reading = readJournal(bytes);
          return reading.kind === "damaged" && reading.journal !== undefined
            ? { kind: "good", journal: reading.journal }
            : reading;
        },
      },
    ],
    [
      "does not count its frames",
      {
        ...subject,
        read: (bytes) => (allCheck(bytes) ? readJournal(mended(bytes, () => true, true)) : readJournal(bytes)),
      },
    ],
    [
      "takes what is no number for zero",
      {
        ...subject,
        fold: (records) =>
          foldRecords(
            JSON.parse(JSON.stringify(records), (key, value: unknown) =>
              numbers.test(key) && value === null ? 0 : value,
            ),
          ),
      },
    ],
  ],
});
