import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { VolumeRecord } from "../domain/records.ts";
import { groupRecord, snapshotRecord, volumeRecord } from "../testing/state-on-disk.ts";
import { decodeRecord, maxRecordBytes, sealRecord } from "./record-codec.ts";
import { safeId } from "./record-readers.ts";

const full: VolumeRecord = volumeRecord("v1", "data \u{1F6E2}", {
  source: { kind: "snapshot", id: "s1" },
  mutable: { mountOptions: "noatime" },
  format: { fsType: "xfs", finished: false },
  attachments: [{ nodeId: "n1", readonly: false, access: "mount", mode: "SINGLE_NODE_WRITER" }],
  staging: {
    path: "/staging",
    capability: { access: "mount", mode: "SINGLE_NODE_WRITER", fsType: "xfs", mountFlags: ["ro"], mountGroup: "1000" },
  },
  publications: [
    {
      path: "/target",
      readonly: true,
      capability: { access: "block", mode: "SINGLE_NODE_READER_ONLY", fsType: "", mountFlags: [], mountGroup: "" },
    },
  ],
});

const expected = { kind: "volume", id: "v1" } as const;
const { file } = sealRecord("volume", full);

/** With a sum that fits: as somebody could write it who knows how. */
function forged(record: unknown, format: unknown = 1): Buffer {
  const body = JSON.stringify(record);
  const sum = createHash("sha256").update(body).digest("hex");
  return Buffer.from(`{"format":${JSON.stringify(format)},"sha256":"${sum}","record":${body}}\n`);
}

/** The record as its file has it. */
const plain = (): Record<string, unknown> =>
  (JSON.parse(file.toString("utf8")) as { readonly record: Record<string, unknown> }).record;

const reasonOf = (bytes: Buffer) => {
  const read = decodeRecord(bytes, expected);
  if ("record" in read) throw new Error("it was read");
  return read;
};

test("a file is one line of JSON: format, sum, record, with sizes as decimal strings", () => {
  const text = file.toString("utf8");
  expect(text).toMatch(/^\{"format":1,"sha256":"[0-9a-f]{64}","record":\{"kind":"volume","id":"v1",.*\}\}\n$/);
  expect(plain()["capacityBytes"]).toBe("1152921504606846977");
});

test("each kind comes back as it was, frozen to the ground", () => {
  const sealed = sealRecord("volume", full);
  expect(decodeRecord(sealed.file, expected)).toEqual({ record: full });
  expect(sealed.record).toEqual(full);
  const group = groupRecord("g1", "g");
  expect(decodeRecord(sealRecord("group", group).file, { kind: "group", id: "g1" })).toEqual({ record: group });
  const snapshot = snapshotRecord("s1", "s", { groupId: "g1" });
  expect(decodeRecord(sealRecord("snapshot", snapshot).file, { kind: "snapshot", id: "s1" })).toEqual({
    record: snapshot,
  });
  const writes = [
    () => Object.assign(sealed.record, { name: "x" }),
    () => Object.assign(sealed.record.parameters, { x: "x" }),
    () => Object.assign(sealed.record.publications[0]?.capability ?? {}, { access: "mount" }),
    () => (sealed.record.attachments as unknown[]).push({}),
  ];
  for (const write of writes) expect(write).toThrow(TypeError);
});

test("any strings and keys come back, also those that JSON or JavaScript takes for something else", () => {
  // Code units: halves of surrogate pairs too.
  const anyText = fc.array(fc.nat(0xffff), { maxLength: 20 }).map((units) => String.fromCharCode(...units));
  const key = fc.oneof(anyText, fc.constantFrom("__proto__", "constructor", "1", "10", "2", "toString"));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(key, anyText), { maxLength: 6 }),
      anyText.filter((name) => name !== ""),
      fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
      (pairs, name, capacityBytes) => {
        const record = volumeRecord("v1", name, { parameters: Object.fromEntries(pairs), capacityBytes });
        const read = decodeRecord(sealRecord("volume", record).file, expected);
        expect("record" in read && [read.record.name, read.record.capacityBytes]).toEqual([name, capacityBytes]);
        expect("record" in read && Object.entries(read.record.parameters)).toEqual(Object.entries(record.parameters));
      },
    ),
  );
});

test("the order of a record's fields is not the caller's business", () => {
  const turned = Object.fromEntries(Object.entries(full).reverse()) as unknown as VolumeRecord;
  expect(sealRecord("volume", turned).file).toEqual(file);
});

test("cut at any byte it is not a record", () => {
  for (let length = 0; length < file.length; length += 1) {
    const { reason, name } = reasonOf(file.subarray(0, length));
    if (length === 0) expect(reason).toBe("it is empty");
    else if (length < file.length - 1) expect(reason).toBe("it is cut off, or was never a record: it is no JSON");
    // Without its last byte it is whole JSON still, and not what the driver writes.
    else expect({ reason, name }).toMatchObject({ reason: /not as the driver writes it/, name: full.name });
  }
});

test("with any byte changed, left out or put in it is not a record", () => {
  for (let at = 0; at < file.length; at += 1) {
    for (const flip of [0x01, 0x20, 0x80, 0xff]) {
      const changed = Buffer.from(file);
      changed[at] = (changed[at] ?? 0) ^ flip;
      reasonOf(changed);
    }
    reasonOf(Buffer.concat([file.subarray(0, at), file.subarray(at + 1)]));
    for (const byte of [" ", "0", ",", "\0"])
      reasonOf(Buffer.concat([file.subarray(0, at), Buffer.from(byte), file.subarray(at)]));
  }
  reasonOf(Buffer.concat([file, file]));
  reasonOf(Buffer.concat([Buffer.from("\uFEFF"), file]));
});

test.each<[string, Buffer, RegExp]>([
  ["zeros, as after a loss of power", Buffer.alloc(file.length), /no JSON/],
  ["another program's JSON", Buffer.from('{"version":3}'), /its format is missing, and this driver knows 1/],
  ["a list", Buffer.from("[]"), /no object/],
  ["null", Buffer.from("null"), /no object/],
  ["a newer driver's", forged(plain(), 2), /its format is 2, and this driver knows 1: a newer driver wrote it/],
  ["a format of another type", forged(plain(), "1"), /its format is "1"/],
  ["no record in it", Buffer.from('{"format":1,"sha256":"x"}'), /its checksum does not fit/],
  ["a record that is a string", forged("x"), /record: has to be an object, and is "x"/],
  ["larger than any", Buffer.alloc(maxRecordBytes + 1, " "), /more than 1048576 bytes/],
  ["no UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), /no JSON/],
])("what is no record of this driver says so: %s", (_what, bytes, reason) => {
  expect(reasonOf(bytes).reason).toMatch(reason);
});

test("the record of another volume, or of another kind, is not served in this directory", () => {
  expect(reasonOf(forged({ ...plain(), id: "v2" }))).toEqual({
    reason: "it is the record of v2, and its directory is named v1",
    name: full.name,
  });
  expect(reasonOf(sealRecord("snapshot", snapshotRecord("v1", "s")).file).reason).toMatch(
    /record\.kind: has to be one of "volume", and is "snapshot"/,
  );
});

test("all that is wrong is named, each with its path", () => {
  const wrong = forged({
    ...plain(),
    name: "",
    type: "tape",
    capacityBytes: 4096,
    createdAt: "yesterday",
    parameters: { a: 1, b: null },
    source: null,
    format: { fsType: "ext4", finished: "yes" },
    attachments: [{ nodeId: "n1", readonly: false, access: "mount", mode: "MULTI_NODE_READER_ONLY" }],
    staging: { path: "staging" },
    publications: {},
    extra: true,
  });
  const { reason, name } = reasonOf(wrong);
  expect(reason.split("; ")).toEqual([
    "record.extra: unknown",
    'record.name: has to be a name, and is ""',
    'record.type: has to be one of "directory", "image", and is "tape"',
    "record.capacityBytes: has to be a number of bytes, as a decimal string, and is 4096",
    'record.createdAt: has to be a moment by RFC 3339, in UTC, and is "yesterday"',
    'record.parameters["a"]: has to be a string, and is 1',
    'record.parameters["b"]: has to be a string, and is null',
    "record.source: has to be an object, and is null",
    'record.format.finished: has to be true or false, and is "yes"',
    expect.stringMatching(/^record\.attachments\[0\]\.mode: has to be one of .*, and is "MULTI_NODE_READER_ONLY"$/),
    'record.staging.path: has to be an absolute path, and is "staging"',
    "record.staging.capability: has to be an object, and is nothing",
    "record.publications: has to be a list, and is {}",
  ]);
  expect(name).toBe("");
});

test.each(["-1", "01", "1.5", "1e3", "0x10", "", " 1", "9223372036854775808", "99999999999999999999"])(
  "%j is no number of bytes",
  (capacityBytes) => {
    expect(reasonOf(forged({ ...plain(), capacityBytes })).reason).toMatch(
      /capacityBytes: has to be a number of bytes/,
    );
  },
);

test("of what was changed by hand the name is not believed", () => {
  const renamed = Buffer.from(file.toString("utf8").replace('"name":"data', '"name":"date'));
  expect(reasonOf(renamed)).toEqual({ reason: expect.stringMatching(/checksum/), name: undefined });
});

test("what could not be read back is not written", () => {
  const bad = { ...full, capacityBytes: -1n, createdAt: "now" };
  expect(() => sealRecord("volume", bad)).toThrow(
    /the record of volume v1 was not stored: record\.capacityBytes: .*-1.*; record\.createdAt: /,
  );
  const large = { ...full, parameters: { a: "x".repeat(maxRecordBytes) } };
  expect(() => sealRecord("volume", large)).toThrow(/would have \d+ bytes, and 1048576 are allowed/);
});

test.each(["", ".", "..", ".hidden", "a/b", "a\0b", "../v1", "a b", "x".repeat(129), "-rf"])("%j is no id", (id) => {
  expect(safeId.test(id)).toBe(false);
});
