import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  type DeepPartial,
  ReleaseClaimsRequest,
  RequestClaimsRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { type Claim, ClaimState, VolumeLifetime, type VolumeTemplate } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { capability, createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { everything } from "../../domain/access/caller-scope.ts";
import { capabilityMessage } from "../convert-message.ts";
import { createLinkClaims } from "./link-claims.ts";

let world: World;
let link: ReturnType<typeof createLinkClaims>;

beforeEach(async () => {
  world = await createWorld();
  link = createLinkClaims({
    commands: world.commands,
    granted: () => true,
    wakeups: world.changes,
    recent: (ref) => world.records.recent(ref),
    feed: world.store,
    clock: world.clock,
    tracing: { currentTraceparent: () => undefined } as Parameters<typeof createLinkClaims>[0]["tracing"],
    scopeOf: () => everything,
  });
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const context = (identity: Identity = { role: "node", name: "n1" }): CallContext =>
  ({ identity, signal: new AbortController().signal, remainingMs: () => 60_000, requestId: "r" }) as CallContext;
const from = { namespace: "default", workload: "web", node: "n1" } as const;
const request = async (
  change: DeepPartial<RequestClaimsRequest> = {},
  identity?: Identity,
): Promise<readonly Claim[]> => {
  const message = RequestClaimsRequest.fromPartial({ ...from, ...change });
  return (await link.requestClaims(message, context(identity))).claims as readonly Claim[];
};
const release = async (change: DeepPartial<ReleaseClaimsRequest> = {}, identity?: Identity) => {
  const message = ReleaseClaimsRequest.fromPartial({ ...from, ...change });
  return (await link.releaseClaims(message, context(identity))).claims as readonly Claim[];
};
const failure = async (run: Promise<unknown>) => {
  const error: unknown = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isHoldfastError(error)) throw new Error(`no refusal but ${String(error)}`);
  return { reason: error.reason, fields: error.violations.map(({ field }) => field) };
};
const nameOfState = (state: ClaimState): string =>
  (Object.keys(ClaimState) as (keyof typeof ClaimState)[]).find((key) => ClaimState[key] === state)?.slice(12) ?? "?";
const states = (claims: readonly Claim[]) => claims.map(({ alias, state }) => `${alias}:${nameOfState(state)}`);

describe("the claims that an agent asks for", () => {
  test("[I9] are those of its own node: it finds nothing of another's", async () => {
    await world.makeVolume("data");
    const other: Identity = { role: "node", name: "n2" };
    const [mine] = await request({ claims: [{ volume: "data" }] });
    const claimUids = [mine?.uid ?? ""];
    expect(await request({ node: "n2", claimUids }, other)).toEqual([]);
    expect(await release({ node: "n2" }, other)).toEqual([]);
    await world.idle();
    expect(states(await request({ claimUids }))).toEqual(["data:ACTIVE"]);
  });

  test("are not given back by the question whether they may be; lives are named without a ticket", async () => {
    await world.makeVolume("data");
    await request({ claims: [{ volume: "data" }] });
    await world.idle();
    expect(await release({ dryRun: true })).toEqual([]);
    await world.idle();
    const [mine] = await request({ claims: [{ volume: "data" }] });
    expect(states([mine as Claim])).toEqual(["data:ACTIVE"]);
    const lives = { claimUids: [mine?.uid ?? ""], ticket: "t" };
    for (const call of [request(lives), release(lives)])
      expect(await failure(call)).toEqual({ reason: "INVALID_ARGUMENT", fields: ["ticket"] });
    expect(await failure(release({ dryRun: true, node: "" }))).toEqual({
      reason: "INVALID_ARGUMENT",
      fields: ["node"],
    });
  });

  test("are all or nothing, and the same for the same content", async () => {
    await world.makeVolume("a");
    expect(await failure(request({ claims: [{ volume: "a" }, { volume: "none" }] }))).toMatchObject({
      reason: "VOLUME_NOT_FOUND",
    });
    const first = await request({ claims: [{ volume: "a" }] });
    const again = await request({ claims: [{ volume: "a" }], requestId: "other" });
    expect(again.map(({ uid }) => uid)).toEqual(first.map(({ uid }) => uid));
    await world.idle();
  });

  const template = {
    lifetime: VolumeLifetime.VOLUME_LIFETIME_EPHEMERAL,
    plugin,
    capacity: { requiredBytes: 10n },
  };
  const scratch = { alias: "scratch", capability: capabilityMessage(capability()), template };

  test("bring their volumes: one by the key of the claim, gone with the claim", async () => {
    const [first] = await request({ claims: [scratch] });
    const [again] = await request({ claims: [scratch], requestId: "other" });
    expect(again).toMatchObject({ uid: first?.uid, volume: first?.volume });
    await world.idle();
    expect(states(await request({ claimUids: [first?.uid ?? ""] }))).toEqual(["scratch:ACTIVE"]);
    expect(await world.countOf({ index: "volume-all", value: "all" })).toBe(1);
    await release({ claimUids: [first?.uid ?? ""] });
    await world.idle();
    expect(await world.countOf({ index: "volume-all", value: "all" })).toBe(0);
    expect(world.backend.volumes()).toEqual([]);
  });

  test("bring new storage alone: a host reads by no secret and from no source that it has no claim on", async () => {
    const ask = (change: DeepPartial<VolumeTemplate>) =>
      failure(request({ claims: [{ ...scratch, template: { ...template, ...change } }] }));
    expect(await ask({ secrets: { node_stage: { ref: "secret:login" } }, snapshot: "s" })).toMatchObject({
      fields: ["claims[0].template.secrets", "claims[0].template.snapshot"],
    });
    expect(await ask({ volume: "data" })).toMatchObject({ fields: ["claims[0].template.volume"] });
    expect(world.backend.calls).toEqual([]);
    expect(await world.countOf({ index: "volume-all", value: "all" })).toBe(0);
  });

  test("follow the workloads that they replace, before all others", async () => {
    await world.makeVolume("data");
    await world.claim("old", "n1", ["data"]);
    await world.idle();
    await world.claim("stranger", "n2", ["data"], { queue: { enabled: true, deadlineMs: 600_000 } });
    await world.clock.advance(5);
    const [mine] = await request({
      claims: [{ volume: "data" }],
      queue: { enabled: true },
      afterWorkloads: ["gone", "old"],
    });
    expect(mine).toMatchObject({ state: ClaimState.CLAIM_STATE_QUEUED, after: "old" });
    await world.release("old");
    await world.idle();
    expect(states(await request({ claimUids: [mine?.uid ?? ""] }))).toEqual(["data:ACTIVE"]);
  });
});

describe("how claims stand that are known by their uids", () => {
  test("nothing is made by asking, also for a claim that is over", async () => {
    await world.makeVolume("data");
    const [mine] = await request({ claims: [{ volume: "data" }] });
    await world.idle();
    const claimUids = [mine?.uid ?? ""];
    await release();
    await world.idle();
    expect(states(await request({ claimUids }))).toEqual(["data:RELEASED"]);
    expect(
      await world.commands.selectClaims({ namespace: "default", workload: "web", aliases: [], claimUids: [] }),
    ).toHaveLength(1);
  });

  test("the answer is held until they have settled", async () => {
    await world.makeVolume("data");
    const { promise, resolve } = Promise.withResolvers<void>();
    world.backend.script("publish", { kind: "held", until: promise });
    const [mine] = await request({ claims: [{ volume: "data" }] });
    let answered = false;
    const held = request({ claimUids: [mine?.uid ?? ""], waitFor: { seconds: 30n, nanos: 0 } }).finally(() => {
      answered = true;
    });
    await world.clock.advance(1_000);
    expect(answered).toBe(false);
    resolve();
    await world.idle();
    expect(states(await held)).toEqual(["data:ACTIVE"]);
  });

  test("or until one is blocked: somebody has to be told what clears it", async () => {
    await world.makeVolume("data");
    world.backend.script("publish", { kind: "refused", advice: "block", code: "PERMISSION_DENIED" });
    const [mine] = await request({ claims: [{ volume: "data" }] });
    const held = request({ claimUids: [mine?.uid ?? ""], waitFor: { seconds: 30n, nanos: 0 } });
    await world.idle();
    const [blocked] = await held;
    expect(blocked).toMatchObject({ state: ClaimState.CLAIM_STATE_ATTACHING });
    expect(blocked?.blocked?.clearWith).not.toBe("");
  });

  test("every violation is told at once", async () => {
    const wrong = request({
      namespace: "No",
      node: "..",
      claimUids: ["u"],
      claims: [{ volume: "v" }],
      afterWorkloads: ["w"],
      queue: { enabled: true },
    });
    const { reason, fields } = await failure(wrong);
    expect(reason).toBe("INVALID_ARGUMENT");
    expect([...fields].sort()).toEqual(["after_workloads", "claims", "namespace", "node", "queue"]);
    const after = await failure(request({ claims: [{ volume: "v" }], afterWorkloads: ["web", "a/b"] }));
    expect(after.fields).toEqual(["after_workloads[0]", "after_workloads[1]"]);
  });
});

test("the claims of a workload are all given back, however many requests it took to get them", async () => {
  const volumes = Array.from({ length: 66 }, (_, n) => ({ volume: `v${n}` }));
  for (const { volume } of volumes) await world.makeVolume(volume);
  await request({ claims: volumes.slice(0, 33) });
  await request({ claims: volumes.slice(33) });
  await world.idle();
  expect(await release()).toHaveLength(66);
  await world.idle();
  expect(new Set(await world.states("web"))).toEqual(new Set(["RELEASED"]));
  expect(world.agents.mounts()).toEqual([]);
});
