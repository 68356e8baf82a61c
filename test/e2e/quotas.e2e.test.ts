/** Quotas over the whole product: what counts, what is refused with which numbers, what is given back, and what a restart keeps. */
import type { Event } from "@holdfast/shared/gen/holdfast/v1/event";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { growVolume, makeVolume, namespace, removeVolume } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";

const MiB = 1n << 20n;
const reason = "a test";

let cluster: Cluster;
/** Of the events from the first quota on. */
let begin: string;
beforeAll(async () => {
  cluster = await startCluster({ nodes: ["node-a"] });
  for await (const { resumeToken } of cluster.events.watchEvents({})) {
    begin = resumeToken;
    break;
  }
});
afterAll(() => cluster?.stop());

const exceeded = (item: string, limit: bigint | number, used: bigint | number, asked: bigint | number) => ({
  kind: "exhausted",
  reason: "QUOTA_EXCEEDED",
  metadata: { namespace, item, limit: String(limit), used: String(used), asked: String(asked) },
});
const bound = (limits: { readonly volumes?: bigint; readonly bytes?: bigint; readonly snapshots?: bigint }) =>
  cluster.quotas.setQuota({ namespace, limits, reason });
const used = async () => (await cluster.quotas.getQuota({ namespace })).quota?.used;
const sized = (id: string, bytes: bigint) => makeVolume(cluster, id, undefined, { bytes });
const cut = (id: string, volume: string) =>
  cluster.snapshots.createSnapshot({ namespace, id, volume, waitFor: { seconds: 30n, nanos: 0 } });

it("a namespace has what it may have, and not more", async () => {
  await sized("before", 16n * MiB);
  const { quota } = await bound({ volumes: 2n, bytes: 64n * MiB, snapshots: 1n });
  expect(quota?.used).toEqual({ volumes: 1n, bytes: 16n * MiB, snapshots: 0n });
  await expect(sized("large", 49n * MiB)).rejects.toMatchObject(exceeded("bytes", 64n * MiB, 16n * MiB, 49n * MiB));
  await sized("second", 32n * MiB);
  await expect(sized("third", 1n * MiB)).rejects.toMatchObject(exceeded("volumes", 2, 2, 1));
  // The same request again is the same volume, and counts once.
  await sized("second", 32n * MiB);
  await expect(growVolume(cluster, "before", 33n * MiB)).rejects.toMatchObject(
    exceeded("bytes", 64n * MiB, 48n * MiB, 17n * MiB),
  );
  await growVolume(cluster, "before", 32n * MiB);
  expect(await used()).toEqual({ volumes: 2n, bytes: 64n * MiB, snapshots: 0n });
  await cut("s1", "second");
  await expect(cut("s2", "second")).rejects.toMatchObject(exceeded("snapshots", 1, 1, 1));
  await expect(
    cluster.snapshots.createSnapshotGroup({
      namespace,
      id: "g",
      members: [
        { volume: "before", snapshot: "g-1" },
        { volume: "second", snapshot: "g-2" },
      ],
    }),
  ).rejects.toMatchObject(exceeded("snapshots", 1, 1, 2));
});

it("another controller life goes on with the same numbers, and what is deleted is given back", async () => {
  await cluster.controller().kill("SIGKILL");
  await cluster.startController();
  await expect(sized("third", 1n * MiB)).rejects.toMatchObject(exceeded("volumes", 2, 2, 1));
  await removeVolume(cluster, "before");
  await until("the volume is given back", async () => (await used())?.volumes === 1n);
  expect(await used()).toEqual({ volumes: 1n, bytes: 32n * MiB, snapshots: 1n });
  await sized("third", 16n * MiB);
});

it("the change of a quota is in the audit and among the events, and without it there is no bound", async () => {
  await bound({ volumes: 1n });
  await expect(sized("fourth", 1n * MiB)).rejects.toMatchObject(exceeded("volumes", 1, 2, 1));
  await cluster.quotas.deleteQuota({ namespace, reason });
  await cluster.quotas.deleteQuota({ namespace, reason });
  await sized("fourth", 256n * MiB);
  await expect(cluster.quotas.getQuota({ namespace })).rejects.toMatchObject({ reason: "QUOTA_NOT_FOUND" });
  const { records } = await cluster.repair.listAudit({ namespace });
  expect(records.map(({ verb, reason: why }) => [verb, why])).toEqual([
    ["DeleteQuota", reason],
    ["SetQuota", reason],
    ["SetQuota", reason],
  ]);
  expect(records[2]?.consequence?.effects).toEqual([
    `namespace ${namespace} may have 2 volumes, ${64n * MiB} bytes, 1 snapshots`,
  ]);
  const events: Event[] = [];
  const reasons = ["QUOTA_ADDED", "QUOTA_CHANGED", "QUOTA_REMOVED", "AUDIT_SET_QUOTA", "AUDIT_DELETE_QUOTA"];
  for await (const { event } of cluster.events.watchEvents({ filter: { namespace, reasons }, resumeToken: begin })) {
    if (event !== undefined) events.push(event);
    if (event?.reason === "AUDIT_DELETE_QUOTA") break;
  }
  expect(events.map((event) => event.reason)).toEqual([
    ...["QUOTA_ADDED", "AUDIT_SET_QUOTA", "QUOTA_CHANGED", "AUDIT_SET_QUOTA"],
    ...["QUOTA_REMOVED", "AUDIT_DELETE_QUOTA"],
  ]);
  expect(events.at(-1)?.message).toContain(`used DeleteQuota on namespace ${namespace}: ${reason}`);
});

it("bad bounds are refused with every field, and nothing is set", async () => {
  await expect(
    cluster.quotas.setQuota({ namespace: "Bad", limits: { volumes: -1n, bytes: 1n << 60n }, reason: "" }),
  ).rejects.toMatchObject({
    kind: "invalid",
    violations: [{ field: "namespace" }, { field: "reason" }, { field: "limits.volumes" }, { field: "limits.bytes" }],
  });
  await expect(bound({})).rejects.toMatchObject({ violations: [{ field: "limits" }] });
  expect((await cluster.quotas.listQuotas({})).quotas).toEqual([]);
});
