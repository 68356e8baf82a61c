import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { SnapshotServiceDefinition, SnapshotState } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { ReclaimPolicy } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient, type GrpcClient } from "@holdfast/shared/grpc/client";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { tempSocket } from "@holdfast/shared/testing/temp-socket";
import { createTracing } from "@holdfast/shared/tracing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  createSnapshotWorld,
  type SnapshotWorld,
  simPlugin,
} from "../../../../../test/support/controller/snapshot-world.ts";
import { everything } from "../../domain/access/caller-scope.ts";
import { createSnapshotService } from "./snapshot-service.ts";

let world: SnapshotWorld;
let api: GrpcClient<typeof SnapshotServiceDefinition>;
let close: () => Promise<void>;
const namespace = "default";

beforeEach(async () => {
  world = await createSnapshotWorld({ storage: { snapshotPolls: 1 } });
  for (const id of ["a", "b"]) await world.makeVolume(id);
  world.backend.clear();
  const socket = await tempSocket();
  const log = createMemoryLogger();
  const server = createGrpcServer({ log });
  const { snapshots, changes: wakeups, clock } = world;
  server.add(
    SnapshotServiceDefinition,
    createSnapshotService({
      granted: () => true,
      scopeOf: () => everything,
      snapshots,
      wakeups,
      clock,
      tracing: createTracing("test"),
    }),
  );
  await server.listen(socket.address);
  const channel = createGrpcChannel(socket.address);
  api = createGrpcClient(SnapshotServiceDefinition, channel, { log, identity: { role: "scheduler", name: "s1" } });
  close = async () => {
    channel.close();
    await server.stop({ graceMs: 0 });
    await socket.remove();
  };
});

afterEach(async () => {
  await close();
  expect(world.backend.violations()).toEqual([]);
  await world.close();
});

const failure = async (promise: Promise<unknown>) => {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isHoldfastError(error)) throw new Error(`no error of ours: ${String(error)}`);
  return error;
};

/** Time goes on while the answer is held. */
const meanwhile = async <T>(asked: Promise<T>): Promise<T> => {
  let answered = false;
  const done = asked.finally(() => {
    answered = true;
  });
  done.catch(() => undefined);
  while (!answered) {
    await world.clock.advance(200);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return await done;
};

describe("SnapshotService", () => {
  test("answers when it is cut, or when it is ready, as the caller asked, and shows what it was asked with", async () => {
    const waitFor = { seconds: 60n, nanos: 0 };
    const asked = { namespace, volume: "a", labels: { x: "1" }, parameters: { tier: "cold" }, waitFor };
    const cut = await meanwhile(api.createSnapshot({ ...asked, id: "s1" }));
    expect(cut.snapshot).toMatchObject({
      state: SnapshotState.SNAPSHOT_STATE_CUT,
      labels: { x: "1" },
      group: "",
      volume: "a",
    });
    expect(cut.snapshot?.cutAt).toBeInstanceOf(Date);
    const ready = await meanwhile(api.createSnapshot({ ...asked, id: "s2", waitUntilReady: true }));
    expect(ready.snapshot).toMatchObject({ state: SnapshotState.SNAPSHOT_STATE_READY, sizeBytes: 1_048_576n });
    // The same again is the same; nothing is cut twice.
    expect((await meanwhile(api.createSnapshot({ ...asked, id: "s2" }))).snapshot?.uid).toBe(ready.snapshot?.uid);
    expect(world.backend.state().snapshots.size).toBe(2);
    const { snapshots } = await api.listSnapshots({ filter: { namespace, volume: "a" } });
    expect(snapshots.map(({ id }) => id)).toEqual(["s1", "s2"]);
    expect((await meanwhile(api.deleteSnapshot({ namespace, id: "s2", waitFor }))).snapshot).toBeUndefined();
    expect((await api.deleteSnapshot({ namespace, id: "s2", waitFor })).snapshot).toBeUndefined();
    expect(await failure(api.getSnapshot({ namespace, id: "s2" }))).toMatchObject({ reason: "SNAPSHOT_NOT_FOUND" });
  });

  test("X38 shows secrets by reference alone, and groups with their snapshots in the order of the volumes", async () => {
    const made = await meanwhile(
      api.createSnapshotGroup({
        namespace,
        id: "g",
        members: [
          { volume: "b", snapshot: "g-b" },
          { volume: "a", snapshot: "g-a" },
        ],
        secrets: { create: { ref: "env:NOT_THERE" } },
        waitFor: { seconds: 1n, nanos: 0 },
      }),
    );
    expect(made.group).toMatchObject({
      state: SnapshotState.SNAPSHOT_STATE_CREATING,
      volumes: ["b", "a"],
      snapshots: ["g-b", "g-a"],
      secrets: { create: { ref: "env:NOT_THERE" } },
      blocked: { reason: "CREDENTIALS_REFUSED" },
    });
    expect(made.snapshots.map(({ id, group }) => [id, group])).toEqual([
      ["g-b", "g"],
      ["g-a", "g"],
    ]);
    const { groups } = await api.listSnapshotGroups({ filter: { namespace, volume: "b" } });
    expect(groups.map(({ id }) => id)).toEqual(["g"]);
  });

  test("refuses bad input with every violation, and writes nothing", async () => {
    const bad = await failure(
      api.createSnapshot({
        namespace: "UP",
        id: "",
        volume: "../x",
        secrets: { delete: { ref: "nonsense" } },
        labels: { "": "x" },
        requestId: "x".repeat(200),
        waitFor: { seconds: -1n, nanos: 0 },
      }),
    );
    expect(bad.violations.map(({ field }) => field).sort()).toEqual([
      "id",
      "labels",
      "namespace",
      "request_id",
      "secrets.delete.ref",
      "volume",
      "wait_for",
    ]);
    const group = await failure(
      api.createSnapshotGroup({
        namespace,
        id: "g",
        members: [
          { volume: "a", snapshot: "x" },
          { volume: "a", snapshot: "x" },
        ],
      }),
    );
    expect(group.violations.map(({ field }) => field).sort()).toEqual(["members[1].snapshot", "members[1].volume"]);
    expect((await failure(api.createSnapshotGroup({ namespace, id: "g" }))).violations).toMatchObject([
      { field: "members" },
    ]);
    const member = { source: "a", id: "x", policy: { reclaim: 9 as ReclaimPolicy } };
    const restore = await failure(api.restoreSnapshotGroup({ namespace, group: "g", members: [member] }));
    expect(restore.violations.map(({ field }) => field).sort()).toEqual([
      "members[0].capabilities",
      "members[0].policy.reclaim",
    ]);
    const list = await failure(
      api.listSnapshots({
        filter: { namespace: "UP", group: "..", states: [77 as SnapshotState] },
        pageSize: 501,
        pageToken: "x",
      }),
    );
    expect(list.violations.map(({ field }) => field).sort()).toEqual([
      "filter.group",
      "filter.namespace",
      "filter.states[0]",
      "page_size",
      "page_token",
    ]);
    expect((await failure(api.listExternalSnapshots({ plugin: "" }))).violations).toMatchObject([{ field: "plugin" }]);
    expect((await failure(api.deleteSnapshot({ namespace, id: "s", uid: "UP" }))).violations).toMatchObject([
      { field: "uid" },
    ]);
    expect(world.calls()).toEqual([]);
    expect(await failure(api.createSnapshot({ namespace, id: "s", volume: "none" }))).toMatchObject({
      reason: "VOLUME_NOT_FOUND",
    });
    expect(await failure(api.listExternalSnapshots({ plugin: "no.such" }))).toMatchObject({
      reason: "PLUGIN_NOT_FOUND",
    });
  });

  test("hands out the backend's list with tokens that fit their question alone", async () => {
    for (const id of ["s1", "s2", "s3"]) await world.snapshot(id, "a");
    const first = await api.listExternalSnapshots({ plugin: simPlugin, pageSize: 2 });
    expect(first.snapshots).toHaveLength(2);
    const rest = await api.listExternalSnapshots({ plugin: simPlugin, pageSize: 2, pageToken: first.nextPageToken });
    expect([...first.snapshots, ...rest.snapshots].map(({ knownId }) => knownId).sort()).toEqual(["s1", "s2", "s3"]);
    expect(rest.nextPageToken).toBe("");
    const other = api.listExternalSnapshots({
      plugin: simPlugin,
      externalVolumeId: "x",
      pageToken: first.nextPageToken,
    });
    expect((await failure(other)).violations).toMatchObject([{ field: "page_token" }]);
  });

  test("streams blocks, and says before the first why there are none", async () => {
    await world.snapshot("s", "a");
    await world.pass(10_000);
    const seen: unknown[] = [];
    for await (const message of api.getMetadataAllocated({ namespace, snapshot: "s" }))
      seen.push(message.volumeCapacityBytes);
    expect(seen).toEqual([1_048_576n]);
    const none = async () => {
      for await (const _ of api.getMetadataDelta({ namespace, baseSnapshot: "nope", targetSnapshot: "s" }));
    };
    expect(await failure(none())).toMatchObject({ reason: "SNAPSHOT_NOT_FOUND", metadata: { snapshot: "nope" } });
  });
});
