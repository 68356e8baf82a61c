/** What plugins answer: nothing that breaks a limit of CSI goes on, and what goes on can be kept and told again. */
import { createdFrom } from "@holdfast/controller/plugins/convert";
import { blocksFrom, snapshotFrom } from "@holdfast/controller/plugins/convert-snapshot";
import { readerOf } from "@holdfast/csi/csi-exchange";
import type { ResponseOf } from "@holdfast/csi/messages";
import { figuresOf } from "../../services/node-agent/src/plugins/figures.ts";
import { fuzzTests } from "./fuzz-tests.ts";
import { otherMessage } from "./mutate-message.ts";
import { type AnswerSample, answerSamples } from "./plugin-answer-corpus.ts";

type Read = (sample: AnswerSample, bytes: Uint8Array) => { readonly value: unknown } | { readonly malformed: string };

const read: Read = ({ method, request }, bytes) => readerOf(method, request as never)(bytes);

interface Input {
  readonly sample: AnswerSample;
  readonly bytes: Uint8Array;
}

/** CSI 1.13, "Size Limits" and the comments of the fields, by the field's name alone. */
const longest: Readonly<Record<string, number>> = { nodeId: 256, publishedNodeIds: 256, nextToken: 4096 };
const mayBeEmpty = new Set(["groupSnapshotId", "nextToken", "vendorVersion", "message", "fsType", "volumeMountGroup"]);
const maps = new Set(["volumeContext", "publishContext", "segments", "manifest", "parameters", "mutableParameters"]);
const ids = new Set(["name", "nodeId", "volumeId", "snapshotId", "sourceVolumeId", "groupSnapshotId", "reason"]);
const sizes =
  /^(capacityBytes|sizeBytes|byteOffset|availableCapacity|m..imumVolumeSize|maxVolumesPerNode|volumeCapacityBytes)$/;

const faultOf = (name: string, value: unknown, within: string): string | undefined => {
  if (typeof value === "bigint" && sizes.test(name) && value < 0n) return `${name} is ${value}`;
  if (value instanceof Date) return Number.isFinite(value.getTime()) ? undefined : `${name} is no time`;
  if (typeof value === "string" && (ids.has(name) || name in longest || name === "fsType")) {
    if (value === "" && !mayBeEmpty.has(name) && within !== "publishedNodeIds") return `${name} is empty`;
    if (Buffer.byteLength(value) > (longest[name] ?? 128)) return `${name} has ${Buffer.byteLength(value)} bytes`;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
    if (/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(value)) return `${name} has control characters`;
  }
  if (typeof value !== "object" || value === null) return undefined;
  if (maps.has(name)) {
    const size = Object.entries(value).flat().join("");
    return Buffer.byteLength(size) > 4096 ? `${name} is larger than 4 KiB` : undefined;
  }
  for (const [key, item] of Object.entries(value)) {
    const fault = Array.isArray(value) ? faultOf(name, item, name) : faultOf(key, item, name);
    if (fault !== undefined) return fault;
  }
  return undefined;
};

const askedFor: Readonly<Record<string, readonly [string, string]>> = {
  ControllerGetVolume: ["volume", "volumeId"],
  ControllerGetVolumeHealth: ["volumeHealth", "volumeId"],
  NodeGetVolumeHealth: ["volumeHealth", "volumeId"],
  GetSnapshot: ["snapshot", "snapshotId"],
  CreateSnapshot: ["snapshot", "sourceVolumeId"],
  GetVolumeGroupSnapshot: ["groupSnapshot", "groupSnapshotId"],
};

/** An answer about another thing than was asked for is believed as proof of nothing. */
const askedOf = ({ method, request }: AnswerSample, value: unknown): string | undefined => {
  const found = askedFor[method];
  if (found === undefined) return undefined;
  const [thing, field] = found;
  const told = (value as Record<string, Record<string, unknown> | undefined>)[thing];
  return told?.[field] === (request as Record<string, unknown>)[field] ? undefined : `it is about another ${thing}`;
};

/** Every number in what our records keep of an answer. */
const unfitNumber = (value: unknown): unknown =>
  typeof value === "number"
    ? Number.isSafeInteger(value)
      ? undefined
      : String(value)
    : typeof value === "object" && value !== null
      ? Object.values(value)
          .map(unfitNumber)
          .find((one) => one !== undefined)
      : undefined;

const facts = { plugin: { SNAPSHOT_ACCESSIBILITY_CONSTRAINTS: "yes" } } as Parameters<typeof snapshotFrom>[0]["facts"];

const converted = ({ method }: AnswerSample, value: unknown): unknown => {
  switch (method) {
    case "CreateVolume":
      return createdFrom(value as ResponseOf<"CreateVolume">, "1");
    case "CreateSnapshot": {
      const { snapshot } = value as ResponseOf<"CreateSnapshot">;
      return snapshot && snapshotFrom({ facts }, snapshot);
    }
    case "GetMetadataAllocated":
      return blocksFrom(value as ResponseOf<"GetMetadataAllocated">);
    case "NodeGetVolumeStats":
      return figuresOf(value as ResponseOf<"NodeGetVolumeStats">);
    default:
      return undefined;
  }
};

/** A reader whose complaints about something are lost. */
const forgets =
  (what: RegExp): Read =>
  (sample, bytes) => {
    const found = read(sample, bytes);
    if ("value" in found || found.malformed.startsWith("cannot")) return found;
    const left = found.malformed.split("; ").filter((one) => !what.test(one));
    const { type } = sample as unknown as { type: { decode(bytes: Uint8Array): unknown } };
    return left.length > 0 ? found : { value: type.decode(bytes) };
  };

fuzzTests<Read, Input>({
  name: "the reader of what plugins answer",
  full: 250_000,
  quick: 4_000,
  findWithin: 6_000,
  subject: read,
  target: (reader) => ({
    next(random) {
      const sample = random.pick(answerSamples);
      const { response, type } = sample;
      return { sample, bytes: otherMessage(type, response, random.pick(answerSamples).response, random) };
    },
    examine({ sample, bytes }) {
      const found = reader(sample, bytes);
      if (!("value" in found)) return { reached: !found.malformed.startsWith("cannot be decoded"), accepted: false };
      const number = unfitNumber(converted(sample, found.value));
      const wrong =
        faultOf("", found.value, "") ??
        askedOf(sample, found.value) ??
        (number === undefined ? undefined : `the record would hold ${number}`);
      return { reached: true, accepted: true, wrong };
    },
    show: ({ sample, bytes }) => `${sample.method} ${Buffer.from(bytes).toString("base64")}`,
  }),
  planted: [
    ["takes an id that is too long by one byte or more", forgets(/_id has \d+ bytes/)],
    ["takes a negative size", forgets(/must not be negative/)],
    ["takes control characters", forgets(/control characters/)],
    ["takes the answer about another volume", forgets(/is not the one that was asked for/)],
    ["takes an answer without an id", forgets(/_id is required/)],
  ],
});
