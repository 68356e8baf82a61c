/** One sound record of every kind, each with a text that its reader takes. */
import type { AggregateKind, StoredRecord } from "../../domain/store-types.ts";
import { claimRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import { encodeVolume } from "../volume/volume-codec.ts";

const at = { createdAt: 1, updatedAt: 2 };
const by = { who: "w", why: "y" };
const attempts = { count: 0, nextTry: 0 };
const cut = {
  ...{ namespace: "ns", id: "s", uid: "u", name: "n", externalId: "", plugin: "p", pluginVersion: "1" },
  ...{ parameters: {}, secretRefs: {}, labels: {}, cutAt: 0, state: "READY", goal: "present", attempts, polls: 0 },
  ...{ requestId: "", ...at, stateSince: 1, changedBy: by },
};

export const soundRecords: readonly StoredRecord[] = [
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

export function stored(kind: AggregateKind, key: string, body: object | string): StoredRecord {
  return { ref: { kind, key }, rev: 1, body: typeof body === "string" ? body : JSON.stringify(body) };
}
