import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  ClaimGoal,
  ClaimState,
  type CreateClaimsRequest,
  type DeepPartial,
  type WaitClaimsResponse,
  type WatchClaimsResponse,
} from "@holdfast/shared/gen/holdfast/v1/claim";
import { AccessMode, AttachmentMode, WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import {
  createWorld,
  capability as domainCapability,
  type World,
} from "../../../../../test/support/controller/world.ts";

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

const wanted = (change: DeepPartial<CreateClaimsRequest> = {}): DeepPartial<CreateClaimsRequest> => ({
  namespace: "default",
  workload: "web",
  node: "n1",
  claims: [{ volume: "data" }],
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

const follow = <T>(stream: AsyncIterable<T>) => {
  const messages: T[] = [];
  const ended = (async () => {
    for await (const message of stream) messages.push(message);
    return "ended";
  })().catch((error: unknown) => error);
  return { messages, ended };
};

/** The plugin takes its time over the next attach, until the answer is let go. */
const holdAttach = (): (() => void) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  world.backend.script("publish", { kind: "held", until: promise });
  return resolve;
};

test("WaitClaims follows a workload of more claims than one request may name", async () => {
  const claims = Array.from({ length: 66 }, (_, n) => ({ volume: `v${n}` }));
  for (const { volume } of claims) await world.makeVolume(volume);
  const letGo = holdAttach();
  await api.claims.createClaims(wanted({ claims: claims.slice(0, 33) }));
  await api.claims.createClaims(wanted({ claims: claims.slice(33) }));
  const { messages, ended } = follow<WaitClaimsResponse>(
    api.claims.waitClaims({ namespace: "default", workload: "web", goal: ClaimGoal.CLAIM_GOAL_ACTIVE }),
  );
  await expect.poll(() => messages.length, { timeout: 30_000 }).toBeGreaterThan(0);
  letGo();
  expect(await ended).toBe("ended");
  expect(messages.at(-1)).toMatchObject({ settled: true, reached: true });
  expect(messages.at(-1)?.claims).toHaveLength(66);
});

test("a deadline of a part of a millisecond is a time like any other, for the queue and for all else of the volume", async () => {
  await world.makeVolume("data");
  await api.claims.createClaims(wanted());
  await world.idle();
  const deadline = { seconds: 60n, nanos: 123_456_789 };
  const { claims } = await api.claims.createClaims(wanted({ workload: "next", queue: { enabled: true, deadline } }));
  expect(claims.map(({ state }) => state)).toEqual([ClaimState.CLAIM_STATE_QUEUED]);
  await api.claims.handOver({
    namespace: "default",
    fromWorkload: "web",
    toWorkload: "heir",
    toNode: "n2",
    deadline: { seconds: 1n, nanos: 1 },
  });
  await world.pass(2_000);
  expect(await world.states("heir")).toEqual(["FAILED"]);
  await api.claims.releaseClaims({ namespace: "default", workload: "web" });
  await world.idle();
  expect(await world.states("next")).toEqual(["ACTIVE"]);
});

test("bad input comes back with every violation at once", async () => {
  const error = await failure(
    api.claims.createClaims({
      namespace: "UP",
      node: "",
      workload: "web",
      claims: [
        { volume: "a", capability: { accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER } },
        { volume: "..", alias: "a", capability: { attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM } },
      ],
      queue: { enabled: true, deadline: { seconds: 8n * 86_400n, nanos: 0 } },
      waitFor: { seconds: -1n, nanos: 0 },
    }),
  );
  expect(error.violations.map(({ field }) => field).sort()).toEqual(
    [
      "namespace",
      "node",
      "claims[0].capability.attachment_mode",
      "claims[1].volume",
      "claims[1].alias",
      "claims[1].capability.access_mode",
      "queue.deadline",
      "wait_for",
    ].sort(),
  );
});

test("WaitClaims wants to know for what", async () => {
  const ended = await follow(api.claims.waitClaims({ namespace: "default", workload: "web " })).ended;
  expect(ended).toMatchObject({
    reason: "INVALID_ARGUMENT",
    violations: [{ field: "goal" }, { field: "workload" }],
  });
});

describe("a claim over the wire", () => {
  test("is asked for, mounted, shown, released and remembered", async () => {
    await world.makeVolume("data", { capabilities: [domainCapability("SINGLE_NODE_WRITER")] });
    const traceparent = "00-11111111111111111111111111111111-2222222222222222-01";
    api.trace(traceparent);
    const { claims } = await api.claims.createClaims(wanted({ waitFor: seconds(30), requestId: "r" }));
    expect(claims).toHaveLength(1);
    const [claim] = claims;
    expect(claim).toMatchObject({
      namespace: "default",
      volume: "data",
      workload: "web",
      alias: "data",
      node: "n1",
      state: ClaimState.CLAIM_STATE_ACTIVE,
      accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      fsType: "ext4",
      epoch: { gen: 1n, ctr: 1n },
      waitingFor: "",
      traceparent,
      traceId: "1".repeat(32),
    });
    expect(claim?.hostPath).not.toBe("");
    expect(claim?.queueDeadline).toBeUndefined();
    const key = { namespace: "default", volume: "data", workload: "web", alias: "data" };
    expect((await api.claims.getClaim(key)).claim).toEqual(claim);
    expect((await api.claims.listClaims({ filter: { node: "n1" } })).claims).toEqual([claim]);
    expect((await api.volumes.getVolume({ namespace: "default", id: "data" })).volume).toMatchObject({
      holderCount: 1n,
      holders: [{ claimUid: claim?.uid, workload: "web", node: "n1" }],
      attachments: [{ node: "n1", claimUids: [claim?.uid] }],
    });
    const over = await api.claims.releaseClaims({ namespace: "default", workload: "web", waitFor: seconds(30) });
    expect(over.claims).toMatchObject([{ uid: claim?.uid, state: ClaimState.CLAIM_STATE_RELEASED, hostPath: "" }]);
    expect(await api.claims.releaseClaims({ namespace: "default", workload: "web", aliases: ["data"] })).toMatchObject(
      over,
    );
    expect((await api.claims.getClaim({ ...key, uid: claim?.uid ?? "" })).claim).toMatchObject({
      state: ClaimState.CLAIM_STATE_RELEASED,
    });
    expect(world.agents.mounts()).toEqual([]);
  });

  test("that is queued behind another says for whom it waits, and is handed over", async () => {
    await world.makeVolume("data");
    await api.claims.createClaims(wanted({ waitFor: seconds(30) }));
    expect(await failure(api.claims.createClaims(wanted({ workload: "web-2", node: "n2" })))).toMatchObject({
      reason: "CLAIM_CONFLICT",
      metadata: { holder_workload: "web", holder_node: "n1" },
    });
    const { claims } = await api.claims.handOver({
      namespace: "default",
      fromWorkload: "web",
      toWorkload: "web-2",
      toNode: "n2",
    });
    expect(claims).toMatchObject([{ state: ClaimState.CLAIM_STATE_QUEUED, after: "web" }]);
    expect(claims[0]?.waitingFor).toContain("web");
    expect(claims[0]?.queueDeadline).toBeInstanceOf(Date);
    await api.claims.releaseClaims({ namespace: "default", workload: "web" });
    await world.idle();
    expect(await world.states("web-2")).toEqual(["ACTIVE"]);
  });
});

describe("WaitClaims", () => {
  const states = (messages: readonly WaitClaimsResponse[]) =>
    messages.map(({ claims, settled, reached }) => [claims.map(({ state }) => state), settled, reached]);

  test("streams what changes, is woken by commits, and ends with all", async () => {
    await world.makeVolume("a");
    await world.makeVolume("b");
    const letGo = holdAttach();
    await api.claims.createClaims(wanted({ claims: [{ volume: "a" }, { volume: "b" }] }));
    const waited = follow(
      api.claims.waitClaims({ namespace: "default", workload: "web", goal: ClaimGoal.CLAIM_GOAL_ACTIVE }),
    );
    await expect.poll(() => waited.messages.length).toBeGreaterThan(0);
    await expect.poll(() => world.changes.waiting()).toBe(2);
    const before = world.store.reads();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(world.store.reads(), "nothing is read while nothing changes").toBe(before);
    letGo();
    expect(await waited.ended).toBe("ended");
    expect(waited.messages[0]?.claims).toHaveLength(2);
    expect(waited.messages.slice(0, -1).every(({ settled }) => !settled)).toBe(true);
    expect(states(waited.messages).at(-1)).toEqual([
      [ClaimState.CLAIM_STATE_ACTIVE, ClaimState.CLAIM_STATE_ACTIVE],
      true,
      true,
    ]);
    expect(world.changes.waiting()).toBe(0);
  });

  test("says that the goal was not reached when a claim failed", async () => {
    await world.makeVolume("data");
    world.backend.script("publish", { kind: "refused", advice: "fail", code: "INVALID_ARGUMENT" });
    await api.claims.createClaims(wanted());
    const waited = follow(
      api.claims.waitClaims({ namespace: "default", workload: "web", goal: ClaimGoal.CLAIM_GOAL_ACTIVE }),
    );
    expect(await waited.ended).toBe("ended");
    expect(states(waited.messages).at(-1)).toEqual([[ClaimState.CLAIM_STATE_FAILED], true, false]);
    expect(waited.messages.at(-1)?.claims[0]?.lastError).toMatchObject({ reason: "INVALID_ARGUMENT" });
  });

  test("ends at once for claims that are gone, when that is the goal, and refuses when it is not", async () => {
    const gone = { namespace: "default", workload: "nobody" };
    const released = follow(api.claims.waitClaims({ ...gone, goal: ClaimGoal.CLAIM_GOAL_RELEASED }));
    expect(await released.ended).toBe("ended");
    expect(released.messages).toEqual([{ claims: [], settled: true, reached: true }]);
    const active = follow(api.claims.waitClaims({ ...gone, goal: ClaimGoal.CLAIM_GOAL_ACTIVE }));
    expect(await active.ended).toMatchObject({ reason: "CLAIM_NOT_FOUND" });
  });

  test("ends with the caller's deadline, and the work goes on", async () => {
    await world.makeVolume("data");
    const letGo = holdAttach();
    await api.claims.createClaims(wanted());
    const waited = follow(
      api.claims.waitClaims(
        { namespace: "default", workload: "web", goal: ClaimGoal.CLAIM_GOAL_ACTIVE },
        { deadlineMs: 150 },
      ),
    );
    expect(await waited.ended).toMatchObject({ kind: "deadline" });
    await expect.poll(() => world.changes.waiting()).toBe(0);
    letGo();
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });
});

test("WatchClaims tells of a claim's life, and of its end with the last state", async () => {
  await world.makeVolume("data");
  await world.makeVolume("other");
  const until = new AbortController();
  const watched = follow<WatchClaimsResponse>(
    api.claims.watchClaims({ filter: { volume: "data" } }, { signal: until.signal }),
  );
  await expect.poll(() => watched.messages.length).toBe(1);
  expect(watched.messages[0]).toMatchObject({ kind: WatchKind.WATCH_KIND_SYNCED, claim: undefined });
  await api.claims.createClaims(wanted({ waitFor: seconds(30) }));
  await api.claims.createClaims(wanted({ workload: "w2", claims: [{ volume: "other" }], waitFor: seconds(30) }));
  await api.claims.releaseClaims({ namespace: "default", workload: "web", waitFor: seconds(30) });
  await expect.poll(() => watched.messages.at(-1)?.kind).toBe(WatchKind.WATCH_KIND_REMOVED);
  expect(watched.messages.at(-1)?.claim).toMatchObject({
    workload: "web",
    volume: "data",
    state: ClaimState.CLAIM_STATE_RELEASED,
  });
  expect(watched.messages.every(({ claim }) => claim === undefined || claim.volume === "data")).toBe(true);
  until.abort();
  await watched.ended;
});
