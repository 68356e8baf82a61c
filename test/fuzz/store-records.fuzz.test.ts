/** Records of the store that a hand, a disk or another program changed: read as they were meant, or named as damaged; never "not there". */
import type { StoredRecord } from "@holdfast/controller/domain/store-types";
import { judgeRecord } from "@holdfast/controller/records/shape/record-readers";
import { soundRecords } from "@holdfast/controller/records/testing/sound-records";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { fuzzTests } from "./fuzz-tests.ts";
import { otherBytes } from "./mutate-bytes.ts";
import { otherTree } from "./mutate-tree.ts";

type Judge = (stored: StoredRecord) => void;
type Fields = Record<string, unknown>;

interface Input {
  readonly sound: StoredRecord;
  readonly stored: StoredRecord;
}

const bodies = soundRecords.filter(({ body }) => body.startsWith("{"));
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** Fields that decisions are made from, by name; notes of controllers have none. */
const counts = /^(gen|ctr|nodeEpoch|count|polls|version|revisionBefore|limit|required)$/;
const sizes = /^(actual|sizeBytes)$/;
const times = /^(createdAt|updatedAt|deletedAt|endedAt|since|foundAt|seenAt|registeredAt|until|nextTry|cutAt|at)$/;
const filled = /^(namespace|id|uid|key|wrapped|body|slots|verb)$/;
const words = /^(state|goal|accessMode|attachmentMode|kind)$/;

const faultOf = (name: string, sound: unknown, found: unknown): string | undefined => {
  const told = `${name} is ${JSON.stringify(found)}`;
  if (counts.test(name) && typeof sound === "number")
    return Number.isSafeInteger(found) && Number(found) >= 0 ? undefined : told;
  if (sizes.test(name) && typeof sound === "number")
    return Number.isInteger(found) && Number(found) >= 0 ? undefined : told;
  if (times.test(name) && typeof sound === "number")
    return typeof found === "number" && Math.abs(found) <= 8.64e15 ? undefined : told;
  if (filled.test(name) && typeof sound === "string" && sound !== "")
    return typeof found === "string" && found !== "" ? undefined : told;
  if (words.test(name) && typeof sound === "string")
    return typeof found === "string" && /^[a-zA-Z_-]+$/.test(found) ? undefined : told;
  return undefined;
};

/** Where the sound record holds something that decides, the changed one holds something of the same sort. */
const wrongIn = (sound: Fields, found: Fields, compact: boolean): string | undefined => {
  for (const [name, was] of Object.entries(sound)) {
    const is = found[name];
    // The text of a volume leaves out what is as ever.
    const fault = compact && is === undefined ? undefined : faultOf(name, was, is);
    if (fault !== undefined) return fault;
    const deeper = (value: unknown): value is Fields => typeof value === "object" && value !== null;
    if (!Array.isArray(was) && deeper(was) && deeper(is)) {
      const within = wrongIn(was, is, compact);
      if (within !== undefined) return `${name}.${within}`;
    }
  }
  return undefined;
};

const ownKey = ({ ref }: StoredRecord, { namespace, id, name }: Fields): boolean =>
  ref.kind !== "volume" && ref.kind !== "node" ? true : ref.key === (ref.kind === "node" ? name : `${namespace}/${id}`);

const wrongly = ({ sound, stored }: Input): string | undefined => {
  if (stored.damage !== undefined) return "the store said that it is damaged";
  const found = parsed(stored.body);
  if (stored.ref.kind === "meta") return found === undefined ? "its text cannot be read" : undefined;
  if (typeof found !== "object" || found === null || Array.isArray(found)) return "it is no record";
  if (!ownKey(stored, found as Fields)) return "it is the record of another thing";
  return wrongIn(JSON.parse(sound.body) as Fields, found as Fields, stored.ref.kind === "volume");
};

/** A judge that corrects something in silence before it looks. */
const corrects =
  (mend: (key: string, value: unknown) => unknown): Judge =>
  (stored) =>
    judgeRecord(
      parsed(stored.body) === undefined ? stored : { ...stored, body: JSON.stringify(JSON.parse(stored.body, mend)) },
    );

fuzzTests<Judge, Input>({
  name: "the reader of the store's records",
  full: 250_000,
  quick: 3_000,
  findWithin: 20_000,
  subject: judgeRecord,
  target: (judge) => ({
    next(random) {
      const sound = random.pick(soundRecords);
      if (random.chance(0.02)) return { sound, stored: { ...sound, body: "", damage: "its first line is missing" } };
      if (random.chance(0.02)) return { sound, stored: { ...sound, body: random.pick(soundRecords).body } };
      if (sound.ref.kind !== "volume" && random.chance(0.25)) {
        const bytes = otherBytes(Buffer.from(sound.body), random, Buffer.from(random.pick(soundRecords).body));
        return { sound, stored: { ...sound, body: bytes.toString("utf8") } };
      }
      const others = JSON.parse(random.pick(bodies).body) as unknown;
      const tree = otherTree(JSON.parse(sound.body) as unknown, { random, json: true, others });
      return { sound, stored: { ...sound, body: JSON.stringify(tree) } };
    },
    examine(input) {
      try {
        judge(input.stored);
      } catch (error) {
        if (!isHoldfastError(error) || error.reason !== "RECORD_DAMAGED") throw error;
        return { reached: !error.message.includes("cannot be read"), accepted: false };
      }
      return { reached: true, accepted: true, wrong: wrongly(input) };
    },
    show: ({ stored }) => `${stored.ref.kind} ${stored.ref.key} ${stored.body}`,
  }),
  planted: [
    [
      "takes a record whose lines are missing",
      ({ damage: _, ...stored }) =>
        judgeRecord({ ...stored, body: stored.body || '{"x":1}', ref: { kind: "meta", key: "x" } }),
    ],
    ["takes a counter below zero", corrects((key, value) => (counts.test(key) && Number(value) < 0 ? 0 : value))],
    ["takes no number for zero", corrects((key, value) => (counts.test(key) && value === null ? 0 : value))],
    ["takes an empty text for a name", corrects((key, value) => (filled.test(key) && value === "" ? "x" : value))],
    [
      "takes the record of another volume",
      (stored) => {
        const { namespace, id } = (parsed(stored.body) ?? {}) as Fields;
        judgeRecord(
          stored.ref.kind === "volume" ? { ...stored, ref: { kind: "volume", key: `${namespace}/${id}` } } : stored,
        );
      },
    ],
  ],
});
