import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AccessMode, AttachmentMode, WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import type { CreateVolumeRequest, DeepPartial, WatchVolumesResponse } from "@holdfast/shared/gen/holdfast/v1/volume";
import {
  type NodeLossPolicy,
  ReclaimPolicy,
  type VolumeBinding,
  VolumeState,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import { createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";

let world: World;
let api: ServedApi;

beforeEach(async () => {
  world = await createWorld();
  api = await serveApi(world);
});
afterEach(async () => {
  await api.close();
  expect(world.violations()).toEqual([]);
  await world.close();
});

const seconds = (n: number) => ({ seconds: BigInt(n), nanos: 0 });
const capability = {
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
  fsType: "ext4",
  mountFlags: ["noatime"],
  volumeMountGroup: "1000",
};
const wanted = (change: DeepPartial<CreateVolumeRequest> = {}): DeepPartial<CreateVolumeRequest> => ({
  namespace: "default",
  id: "data",
  plugin,
  capabilities: [capability],
  ...change,
});

const failure = async (run: Promise<unknown>): Promise<HoldfastError> => {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isHoldfastError(error)) throw new Error(`no refusal but ${String(error)}`);
  return error;
};

/** The plugin takes its time over the next CreateVolume, until the answer is let go. */
const holdCreate = (): (() => void) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  world.backend.script("create", { kind: "held", until: promise });
  return resolve;
};

/** Lets the world work until the call is answered. */
const worked = async <T>(call: Promise<T>): Promise<T> => {
  let over = false;
  const settled = call.finally(() => {
    over = true;
  });
  settled.catch(() => undefined);
  while (!over) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    await world.idle();
  }
  return settled;
};

describe("bad input", () => {
  test("comes back with every violation at once, those of the message and those of the rules", async () => {
    const error = await failure(
      api.volumes.createVolume({
        namespace: "Bad/Namespace",
        id: "..",
        plugin: "",
        capabilities: [
          { accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER },
          { attachmentMode: AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE, fsType: "ext4" },
        ],
        capacity: { requiredBytes: 10n, limitBytes: 5n },
        parameters: { key: "x".repeat(5000) },
        policy: { identityTokens: [{ audience: "a", ttl: { seconds: -1n, nanos: 0 } }] },
        secrets: { create: { ref: "vault:x" } },
        waitFor: { seconds: -5n, nanos: 0 },
      }),
    );
    expect(error).toMatchObject({ kind: "invalid", reason: "INVALID_ARGUMENT" });
    expect(error.violations.map(({ field }) => field).sort()).toEqual(
      [
        "namespace",
        "id",
        "plugin",
        "capabilities[0].attachment_mode",
        "capabilities[1].access_mode",
        "capabilities[1].fs_type",
        "capacity.limit_bytes",
        "parameters",
        "policy.identity_tokens[0].ttl",
        "secrets.create.ref",
        "wait_for",
      ].sort(),
    );
    expect(world.store.commits()).toBe(0);
  });

  test("in words of a later version is never taken for the default, least of all for the one that destroys", async () => {
    const policy = { reclaim: 7 as ReclaimPolicy, nodeLoss: 8 as NodeLossPolicy };
    const fields = async (run: Promise<unknown>) => (await failure(run)).violations.map(({ field }) => field).sort();
    const later = { policy, binding: 9 as VolumeBinding, contentSource: {} };
    expect(await fields(api.volumes.createVolume(wanted(later)))).toEqual([
      "binding",
      "content_source",
      "policy.node_loss",
      "policy.reclaim",
    ]);
    expect(await fields(api.volumes.registerVolume({ ...wanted({ policy }), externalId: "ext-1" }))).toEqual([
      "policy.node_loss",
      "policy.reclaim",
    ]);
    expect(await fields(api.volumes.updateVolume({ namespace: "default", id: "data", policy }))).toEqual([
      "policy.node_loss",
      "policy.reclaim",
    ]);
    expect(world.store.commits()).toBe(0);
  });

  test("of lists: sizes, states and foreign tokens", async () => {
    const error = await failure(
      api.volumes.listVolumes({
        filter: { namespace: "UP", node: "..", states: [77 as VolumeState] },
        pageSize: 501,
        pageToken: "nonsense",
      }),
    );
    expect(error.violations.map(({ field }) => field).sort()).toEqual([
      "filter.namespace",
      "filter.node",
      "filter.states[0]",
      "page_size",
      "page_token",
    ]);
  });

  test("a source that is not there is said to be so, and nothing is written", async () => {
    const error = await failure(api.volumes.createVolume(wanted({ contentSource: { snapshot: "s1" } })));
    expect(error).toMatchObject({ kind: "not_found", reason: "SNAPSHOT_NOT_FOUND", metadata: { snapshot: "s1" } });
    expect(world.store.commits()).toBe(0);
  });
});

test("agents are told of a policy that may be another, and of nothing else", async () => {
  await api.volumes.createVolume(wanted({}));
  await api.volumes.updateVolume({ namespace: "default", id: "data", labels: { labels: { a: "b" } } });
  expect(api.changedPolicies).toEqual([]);
  await api.volumes.updateVolume({ namespace: "default", id: "data", policy: { requiresRepublish: true } });
  expect(api.changedPolicies).toEqual(["data"]);
});

describe("CreateVolume and DeleteVolume", () => {
  test("take what was asked for through to the record and back", async () => {
    const traceparent = "00-11111111111111111111111111111111-2222222222222222-01";
    api.trace(traceparent);
    const request = wanted({
      capacity: { requiredBytes: 10n, limitBytes: 20n },
      parameters: { tier: "gold" },
      mutableParameters: { iops: "3" },
      topology: { required: [{ segments: { zone: "a" } }], preferred: [{ segments: { zone: "a" } }] },
      secrets: { create: { ref: "file:s/create.json" }, nodeStage: { ref: "env:STAGE" } },
      labels: { team: "x" },
      policy: { reclaim: ReclaimPolicy.RECLAIM_POLICY_RETAIN, requiresRepublish: true },
      requestId: "r1",
    });
    const { volume } = await api.volumes.createVolume(request);
    expect(volume).toMatchObject({
      namespace: "default",
      id: "data",
      plugin,
      state: VolumeState.VOLUME_STATE_CREATING,
      capabilities: [capability],
      capacity: { requiredBytes: 10n, limitBytes: 20n, actualBytes: 0n },
      parameters: { tier: "gold" },
      mutableParameters: { iops: "3" },
      topology: { required: [{ segments: { zone: "a" } }], preferred: [{ segments: { zone: "a" } }], accessible: [] },
      secrets: { create: { ref: "file:s/create.json" }, nodeStage: { ref: "env:STAGE" }, delete: undefined },
      labels: { team: "x" },
      policy: { reclaim: ReclaimPolicy.RECLAIM_POLICY_RETAIN, requiresRepublish: true },
      lastChange: { who: "scheduler/s1", why: "CreateVolume" },
      revision: 1n,
      deleteWanted: false,
    });
    const record = (await world.commands.getVolume({ namespace: "default", id: "data" })).volume;
    expect(record.trace).toMatchObject({ parent: traceparent });
    expect(record.requestId).toBe("r1");
    const again = await api.volumes.createVolume(request);
    expect(again.volume?.uid).toBe(volume?.uid);
    expect(await failure(api.volumes.createVolume(wanted()))).toMatchObject({
      reason: "VOLUME_EXISTS",
      metadata: { field: "capacity.required_bytes" },
    });
  });

  test("hold the answer until it has settled", async () => {
    const created = await worked(api.volumes.createVolume(wanted({ waitFor: seconds(30) })));
    expect(created.volume).toMatchObject({ state: VolumeState.VOLUME_STATE_AVAILABLE });
    expect(created.volume?.externalId).not.toBe("");
    const gone = await worked(api.volumes.deleteVolume({ namespace: "default", id: "data", waitFor: seconds(30) }));
    expect(gone.volume).toBeUndefined();
    expect(await api.volumes.deleteVolume({ namespace: "default", id: "data" })).toEqual({ volume: undefined });
  });

  test("answer how it stands when the wait was too short, and the work goes on", async () => {
    const letGo = holdCreate();
    const call = api.volumes.createVolume(wanted({ waitFor: seconds(30) }));
    await expect.poll(() => world.changes.waiting()).toBe(1);
    await world.clock.advance(29_000);
    expect(world.changes.waiting()).toBe(1);
    await world.clock.advance(2_000);
    expect((await call).volume).toMatchObject({ state: VolumeState.VOLUME_STATE_CREATING, externalId: "" });
    letGo();
    await world.idle();
    expect((await world.volume("data")).state).toBe("AVAILABLE");
  });

  test("a caller that gives up cancels its wait only", async () => {
    const letGo = holdCreate();
    const until = new AbortController();
    const call = api.volumes.createVolume(wanted({ waitFor: seconds(30) }), { signal: until.signal });
    await expect.poll(() => world.changes.waiting()).toBe(1);
    until.abort();
    await expect(call).rejects.toThrow();
    await expect.poll(() => world.changes.waiting()).toBe(0);
    letGo();
    await world.idle();
    expect((await world.volume("data")).state).toBe("AVAILABLE");
  });
});

describe("lists", () => {
  test("go on where they were, for the same question only", async () => {
    for (const id of ["a", "b", "c"]) await world.makeVolume(id);
    const seen: string[] = [];
    let pageToken = "";
    do {
      const page = await api.volumes.listVolumes({ filter: { namespace: "default" }, pageSize: 2, pageToken });
      seen.push(...page.volumes.map(({ id }) => id));
      pageToken = page.nextPageToken;
      if (pageToken !== "")
        expect(await failure(api.volumes.listVolumes({ filter: {}, pageToken }))).toMatchObject({
          violations: [{ field: "page_token" }],
        });
    } while (pageToken !== "");
    expect(seen).toEqual(["a", "b", "c"]);
    const blocked = await api.volumes.listVolumes({ filter: { blocked: true } });
    expect(blocked).toEqual({ volumes: [], nextPageToken: "" });
  });
});

describe("WatchVolumes", () => {
  const watch = (request: object = {}) => {
    const until = new AbortController();
    const messages: WatchVolumesResponse[] = [];
    const ended = (async () => {
      for await (const message of api.volumes.watchVolumes(request, { signal: until.signal })) messages.push(message);
    })().catch((error: unknown) => error);
    return {
      messages,
      until: async (count: number) => expect.poll(() => messages.length).toBeGreaterThanOrEqual(count),
      async stop() {
        until.abort();
        return ended;
      },
    };
  };
  const { WATCH_KIND_EXISTING: existing, WATCH_KIND_SYNCED: synced } = WatchKind;
  const { WATCH_KIND_CHANGED: changed, WATCH_KIND_REMOVED: removed } = WatchKind;

  test("tells what exists, then SYNCED, then changes, then the end", async () => {
    await world.makeVolume("a");
    const watched = watch();
    await watched.until(2);
    await world.makeVolume("b");
    await watched.until(4);
    await world.commands.deleteVolume(
      { namespace: "default", id: "a", uid: "", requestId: "" },
      { who: "t", why: "t" },
    );
    await world.idle();
    await expect.poll(() => watched.messages.at(-1)?.kind).toBe(removed);
    expect(watched.messages.slice(0, 2).map(({ kind, volume }) => [kind, volume?.id])).toEqual([
      [existing, "a"],
      [synced, undefined],
    ]);
    expect(watched.messages.slice(2, -1).every(({ kind }) => kind === changed)).toBe(true);
    expect(watched.messages.at(-1)?.volume).toMatchObject({ namespace: "default", id: "a", plugin });
    expect(watched.messages.every(({ resumeToken }) => resumeToken !== "")).toBe(true);
    await watched.stop();
  });

  test("goes on from any token without loss and without what existed", async () => {
    await world.makeVolume("a");
    const first = watch();
    await first.until(2);
    const resumeToken = first.messages[1]?.resumeToken;
    await first.stop();
    await world.makeVolume("b");
    const second = watch({ resumeToken });
    await second.until(1);
    expect(second.messages[0]).toMatchObject({ kind: changed, volume: { id: "b" } });
    await second.stop();
    const halfway = watch({ resumeToken: first.messages[0]?.resumeToken });
    await expect.poll(() => halfway.messages.some(({ kind }) => kind === synced)).toBe(true);
    expect(halfway.messages.filter(({ kind }) => kind === existing).map(({ volume }) => volume?.id)).toContain("a");
    await halfway.stop();
  });

  test("tells when a volume no longer fits, and nothing of those that never could", async () => {
    await world.makeVolume("a");
    await world.makeVolume("other");
    const watched = watch({ filter: { idPrefix: "a", states: [VolumeState.VOLUME_STATE_AVAILABLE] } });
    await watched.until(2);
    await world.commands.deleteVolume(
      { namespace: "default", id: "other", uid: "", requestId: "" },
      { who: "t", why: "t" },
    );
    await world.commands.deleteVolume(
      { namespace: "default", id: "a", uid: "", requestId: "" },
      { who: "t", why: "t" },
    );
    await world.idle();
    await watched.until(3);
    expect(new Set(watched.messages.slice(2).map(({ kind, volume }) => `${kind} ${volume?.id}`))).toEqual(
      new Set([`${removed} a`]),
    );
    await watched.stop();
  });

  test("says when the history does not reach back that far", async () => {
    const first = watch();
    await first.until(1);
    const token = first.messages[0]?.resumeToken ?? "";
    await first.stop();
    const { q } = JSON.parse(Buffer.from(token, "base64url").toString()) as { q: string };
    const old = Buffer.from(JSON.stringify({ c: JSON.stringify(["999999"]), q })).toString("base64url");
    expect(await failure(collect(api.volumes.watchVolumes({ resumeToken: old })))).toMatchObject({
      kind: "out_of_range",
      reason: "EVENTS_TRIMMED",
    });
    const foreign = Buffer.from(JSON.stringify({ c: JSON.stringify(["0"]), q: "x" })).toString("base64url");
    const odd = ["{", "7", "[7]", '["1", 2]'].map((c) => Buffer.from(JSON.stringify({ c, q })).toString("base64url"));
    for (const resumeToken of [foreign, ...odd])
      expect(await failure(collect(api.volumes.watchVolumes({ resumeToken })))).toMatchObject({
        violations: [{ field: "resume_token" }],
      });
  });
});

const collect = async (stream: AsyncIterable<unknown>): Promise<void> => {
  for await (const _ of stream) return;
};
