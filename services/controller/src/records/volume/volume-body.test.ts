import { useOf } from "@holdfast/model/volume-use";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { attachmentRecord, claimRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import { readVolumeBody, writeVolumeBody } from "./volume-body.ts";

const words = fc.dictionary(fc.constantFrom("a", "b", "zone"), fc.constantFrom("", "x"), { maxKeys: 2 });
const flags = fc.subarray(["ro", "noatime"]);
const attempts = fc.constantFrom({ count: 0, nextTry: 0 }, { count: 2, nextTry: 9 });

const claims = fc.uniqueArray(
  fc
    .record({
      uid: fc.constantFrom("u1", "u2", "u3"),
      change: fc.record({
        mountFlags: flags,
        readOnly: fc.boolean(),
        requestId: fc.constantFrom("", "r"),
        attempts,
        set: fc.constantFrom(
          [],
          [{ namespace: "ns", volume: "data", uid: "u1" }],
          [{ namespace: "ns", volume: "other", uid: "u2" }],
          [
            { namespace: "ns", volume: "data", uid: "u1" },
            { namespace: "ns", volume: "data", uid: "u2" },
          ],
        ),
      }),
    })
    .map(({ uid, change }) => claimRecord(uid, change)),
  { selector: (claim) => claim.uid, maxLength: 3 },
);

const attachments = fc.uniqueArray(
  fc
    .record({
      node: fc.constantFrom("n1", "n2"),
      change: fc.record({
        state: fc.constantFrom("ATTACHING" as const, "ATTACHED" as const),
        needsCalls: fc.boolean(),
        publishContext: words,
        mountFlags: flags,
        volumeMountGroup: fc.constantFrom("", "g"),
      }),
    })
    .map(({ node, change }) => attachmentRecord(node, change)),
  { selector: ({ node }) => node, maxLength: 2 },
);

const volume = fc
  .record({
    claims,
    attachments,
    change: fc.record({
      labels: words,
      parameters: words,
      pluginVersion: fc.constantFrom("", "1"),
      attempts,
      topology: fc.record({
        required: fc.array(words, { maxLength: 1 }),
        preferred: fc.array(words, { maxLength: 1 }),
        accessible: fc.array(words, { maxLength: 1 }),
      }),
      goal: fc.constantFrom("present" as const, "absent" as const),
      capabilities: fc.array(
        fc.record({
          attachmentMode: fc.constantFrom("FILE_SYSTEM" as const, "BLOCK_DEVICE" as const),
          accessMode: fc.constantFrom("MULTI_NODE_MULTI_WRITER" as const, "SINGLE_NODE_WRITER" as const),
          fsType: fc.constantFrom("", "xfs"),
          mountFlags: flags,
          volumeMountGroup: fc.constantFrom("", "g"),
        }),
        { maxLength: 2 },
      ),
    }),
  })
  .map(({ claims: some, attachments: where, change }) => volumeRecord(some, where, change));

describe("the body of a volume", () => {
  it("B1: is read as it was written", () =>
    fc.assert(fc.property(volume, (record) => void expect(readVolumeBody(writeVolumeBody(record))).toEqual(record))));

  it("B1: with every field in it is read as well", () =>
    fc.assert(fc.property(volume, (record) => void expect(readVolumeBody(JSON.stringify(record))).toEqual(record))));

  it("B1: D9 an attachment of an earlier release has the group that its plugin was told, which is none", () => {
    const record = volumeRecord([], [attachmentRecord("n1")]);
    const { volumeMountGroup: _, ...older } = attachmentRecord("n1");
    const capabilities = [useOf(attachmentRecord("n1", { volumeMountGroup: "g" }))];
    const read = readVolumeBody(JSON.stringify({ ...record, capabilities, attachments: { n1: older } }));
    expect(read.attachments["n1"]?.volumeMountGroup).toBe("");
  });

  it("leaves out what is as it nearly always is", () => {
    const record = volumeRecord([claimRecord("u1")], [attachmentRecord("n1")]);
    const body = writeVolumeBody(record);
    for (const field of ["mutableParameters", "secretRefs", "bars", "needsCalls", '"set"'])
      expect(body).not.toContain(field);
    expect(body.length).toBeLessThan(JSON.stringify(record).length * 0.7);
  });
});
