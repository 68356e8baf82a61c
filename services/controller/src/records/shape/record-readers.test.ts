import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sample } from "../../../../../test/support/full.ts";
import type { AggregateKind, StoredRecord } from "../../domain/store-types.ts";
import { claimRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import { createDamagedRecords, damagedByKind } from "../damaged-records.ts";
import { decodeVolume, encodeVolume } from "../volume/volume-codec.ts";
import { judgeRecord } from "./record-readers.ts";

const at = { createdAt: 1, updatedAt: 2 };
const by = { who: "w", why: "y" };
const attempts = { count: 0, nextTry: 0 };
const cut = {
  ...{ namespace: "ns", id: "s", uid: "u", name: "n", externalId: "", plugin: "p", pluginVersion: "1" },
  ...{ parameters: {}, secretRefs: {}, labels: {}, cutAt: 0, state: "READY", goal: "present", attempts, polls: 0 },
  ...{ requestId: "", ...at, stateSince: 1, changedBy: by },
};

/** One sound record of every kind, each with a text that its reader takes. */
const sound: readonly StoredRecord[] = [
  stored("volume", "ns/data", encodeVolume(volumeRecord([claimRecord("c1")]), 0, 1).write.body ?? ""),
  stored("node", "n1", {
    ...{ name: "n1", machineId: "m", bootId: "b", journalUid: "j", instance: "i", nodeEpoch: 1, state: "READY" },
    ...{ address: "a", version: "1", verificationScope: "host", plugins: [], registeredAt: 1, updatedAt: 1 },
  }),
  stored("plugin", "p", { name: "p", versions: [], ...at, changedBy: by }),
  stored("secret", "ns/s", {
    ...{ namespace: "ns", name: "s", inline: false, ...at, changedBy: by },
    versions: [{ version: 1, createdAt: 1, keys: [], sealed: { key: "k", wrapped: "w", body: "b" }, requestId: "" }],
  }),
  stored("snapshot", "ns/s", {
    ...{ kind: "snapshot", ...cut, volume: "v", volumeUid: "vu", externalVolumeId: "e" },
    ...{ group: "", externalGroupId: "", sizeBytes: 0 },
  }),
  stored("group", "ns/s", { kind: "group", ...cut, members: [], answeredIds: [] }),
  stored("attach-limit", "n1/p", { slots: "n1/p", limit: 3, until: 9, instance: "i", maxVolumes: 0 }),
  stored("audit", "a1", {
    ...{ id: "a1", at: 1, verb: "V", who: "w", reason: "r", evidence: "", confirmed: "", effects: [], risks: [] },
    ...{ requestId: "", traceId: "", subject: {}, revisionBefore: 1 },
  }),
  stored("orphan", "o1", {
    ...{ id: "o1", kind: "storage", plugin: "p", externalId: "e", node: "", driverNodeId: "", namespace: "" },
    ...{ volume: "", path: "", sizeBytes: 0, detail: "", foundAt: 1, seenAt: 1 },
  }),
  stored("grant", "s1", { scheduler: "s1", namespaces: ["ns"], plugins: ["*"], secretRoots: [], ...at, changedBy: by }),
  stored("quota", "ns", { namespace: "ns", limits: { volumes: 3 }, ...at, changedBy: by }),
  stored("meta", "driver/p", { holder: "c1/1-a" }),
  stored("tombstone", "ns/v", { namespace: "ns", id: "v", uid: "u", plugin: "p", externalId: "", deletedAt: 1 }),
  stored("tombstone", "snapshot/ns/s", { kind: "snapshot", namespace: "ns", id: "s", uid: "u", deletedAt: 1 }),
  stored("tombstone", "ns/v/w/a/u", {
    ...{ namespace: "ns", volume: "v", workload: "w", alias: "a", uid: "u", node: "n1", state: "RELEASED" },
    ...{ requestId: "", createdAt: 1, endedAt: 2 },
  }),
  stored("tombstone", "~delete/p/e", {
    ...{ plugin: "p", externalId: "e", namespace: "ns", id: "v", uid: "u", since: 1 },
  }),
];

function stored(kind: AggregateKind, key: string, body: object | string): StoredRecord {
  return { ref: { kind, key }, rev: 1, body: typeof body === "string" ? body : JSON.stringify(body) };
}

const reasonOf = (record: StoredRecord): string => {
  try {
    judgeRecord(record);
    return "sound";
  } catch (error) {
    return isHoldfastError(error) ? error.reason : String(error);
  }
};

/** What a hand, a disk or another program may leave of a text. */
const mutation = fc.oneof(
  fc.record({ how: fc.constant("cut" as const), at: fc.nat(2_000) }),
  fc.record({ how: fc.constant("put" as const), at: fc.nat(2_000), text: fc.string({ maxLength: 6 }) }),
  fc.record({ how: fc.constant("replace" as const), text: fc.oneof(fc.json(), fc.string()) }),
  fc.record({ how: fc.constant("field" as const), at: fc.nat(60), value: fc.jsonValue() }),
  fc.record({ how: fc.constant("frame" as const) }),
);

const mutated = (record: StoredRecord, change: typeof mutation extends fc.Arbitrary<infer T> ? T : never) => {
  const { body } = record;
  switch (change.how) {
    case "cut":
      return { ...record, body: body.slice(0, change.at % (body.length + 1)) };
    case "put": {
      const from = change.at % (body.length + 1);
      return { ...record, body: body.slice(0, from) + change.text + body.slice(from + change.text.length) };
    }
    case "replace":
      return { ...record, body: change.text };
    case "field": {
      const fields = Object.entries(JSON.parse(body) as Record<string, unknown>);
      const [name = ""] = fields[change.at % fields.length] ?? [];
      return { ...record, body: JSON.stringify({ ...Object.fromEntries(fields), [name]: change.value }) };
    }
    case "frame":
      return { ...record, rev: 0, body: "", damage: "the lines before its body are missing" };
  }
};

describe("a record of every kind", () => {
  it.each(sound.map((record) => [`${record.ref.kind} ${record.ref.key}`, record] as const))(
    "%s is read as long as it is whole, and named when it is not",
    (_name, record) => {
      expect(reasonOf(record)).toBe("sound");
      for (const body of ["", "{", "null", "[]", "5", '"x"', body0(record).slice(0, -1)])
        expect(`${body}: ${reasonOf({ ...record, body })}`).toBe(
          `${body}: ${record.ref.kind === "meta" && body !== "" && isJson(body) ? "sound" : "RECORD_DAMAGED"}`,
        );
      expect(reasonOf({ ...record, damage: "its lines are missing" })).toBe("RECORD_DAMAGED");
    },
  );

  it("gives, however it was changed, the record or a named damage, and no other error", () => {
    const record = fc.constantFrom(...sound);
    fc.assert(
      fc.property(record, mutation, (one, change) => {
        const found = mutated(one, change);
        expect(["sound", "RECORD_DAMAGED"]).toContain(reasonOf(found));
        if (change.how === "frame") expect(reasonOf(found)).toBe("RECORD_DAMAGED");
      }),
      { numRuns: sample(20_000, 1_500) },
    );
  });

  it("is damaged when a number that decides is none, when it is of another kind, and under another key", () => {
    const [volume, node] = sound as [StoredRecord, StoredRecord];
    const changed = (of: StoredRecord, change: object): StoredRecord => ({
      ...of,
      body: JSON.stringify({ ...JSON.parse(of.body), ...change }),
    });
    for (const epoch of [
      null,
      {},
      { gen: "1", ctr: 1 },
      { gen: 1, ctr: 1.5 },
      { gen: 1, ctr: 2 ** 60 },
      { gen: -1, ctr: 1 },
    ])
      expect(reasonOf(changed(volume, { epoch }))).toBe("RECORD_DAMAGED");
    expect(reasonOf(changed(node, { nodeEpoch: null }))).toBe("RECORD_DAMAGED");
    expect(reasonOf({ ...volume, body: node.body })).toBe("RECORD_DAMAGED");
    expect(() => decodeVolume({ ...volume, ref: { kind: "volume", key: "default/other" } })).toThrow(
      "it is the record of ns/data",
    );
  });
});

describe("what was found damaged", () => {
  it("is noted once, takes nothing from the others, and is thrown where the answer has to be whole", () => {
    const told: object[] = [];
    const damages = createDamagedRecords({
      log: { error: (_m, fields) => void told.push(fields ?? {}) },
      now: () => 7,
    });
    const [volume] = sound as [StoredRecord];
    const broken = { ...volume, ref: { ...volume.ref, key: "default/broken" }, body: "{" };
    for (let n = 0; n < 3; n += 1)
      expect(damages.readEach([broken, volume], decodeVolume).map(({ id }) => id)).toEqual(["data"]);
    expect(told).toHaveLength(1);
    expect(damages.list().map(({ ref, since }) => [ref.key, since])).toEqual([["default/broken", 7]]);
    expect(damages.of(broken.ref)?.metadata).toMatchObject({ kind: "volume", key: "default/broken" });
    expect([...damagedByKind(damages.list())]).toEqual([["volume", 1]]);
    expect(() => damages.readEach([broken, volume], decodeVolume, true)).toThrow("is damaged");
  });
});

function body0(record: StoredRecord): string {
  return record.body;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

it("a mark that bars a volume or a node is never read as none", () => {
  const volume = volumeRecord([claimRecord("c1")]);
  const [, node] = sound;
  for (const broken of [null, {}, "x", [{ node: "n1" }]])
    expect(reasonOf(stored("volume", "ns/data", { ...volume, foreign: broken }))).toBe("RECORD_DAMAGED");
  for (const broken of [
    { pending: {} },
    { speaksFrom: "2" },
    { admitted: 1 },
    { linkLost: 1 },
    { linkDoubt: { by: "a" } },
  ])
    expect(reasonOf(stored("node", "n1", { ...JSON.parse(node?.body ?? ""), ...broken }))).toBe("RECORD_DAMAGED");
});
