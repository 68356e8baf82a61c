/**
 * The API as callers use it: any requests in any order, while the plugin answers with every code of gRPC, does its work and loses the answer,
 * commits of the store are lost, and controllers die. A model of a few lines says what must be there at the end: nothing else is, nothing of
 * it is missing, and what cannot go on says so.
 */
import type { AccessMode } from "@holdfast/controller/domain/access";
import type { VolumeRecord } from "@holdfast/controller/domain/volume";
import type { CallKind } from "@holdfast/csi/call-kind";
import { type Code, codes, verdictOf } from "@holdfast/csi/outcome";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { BackendFault, BackendMethod } from "../support/controller/fake-backend.ts";
import { caller, capability, createWorld, plugin, volumeInput, type World } from "../support/controller/world.ts";
import { full, sample } from "../support/full.ts";

const volumes = ["a", "b", "c"] as const;
const workloads = ["w1", "w2", "w3"] as const;
const nodes = ["n1", "n2"] as const;
const secrets = ["s1", "s2"] as const;
const modes: readonly AccessMode[] = ["SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER"];
/** Storage that was there before: no request here may make it vanish. */
const foreign = "disk-1";

const volume = fc.constantFrom(...volumes);
const workload = fc.constantFrom(...workloads);
const node = fc.constantFrom(...nodes);
const secret = fc.constantFrom(...secrets);

const request = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("create" as const),
      volume,
      mode: fc.constantFrom(...modes),
      from: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: volume }),
      secret: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: secret }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("register" as const), volume }) },
  {
    weight: 9,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      workload,
      node,
      volumes: fc.uniqueArray(volume, { minLength: 1, maxLength: 2 }),
      queue: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("release" as const), workload }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("hand-over" as const), workload, to: workload, node }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("expand" as const), volume, megabytes: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("modify" as const), volume, iops: fc.constantFrom("1", "2") }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("delete" as const), volume }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("drain" as const), node, release: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("undrain" as const), node }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("put-secret" as const), secret, value: fc.constantFrom("x", "y") }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("delete-secret" as const), secret }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pass" as const), seconds: fc.constantFrom(1, 20, 90) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("lose-commits" as const),
      how: fc.array(fc.constantFrom("before" as const, "after" as const), { minLength: 1, maxLength: 2 }),
    }),
  },
);
type Request = typeof request extends fc.Arbitrary<infer T> ? T : never;

type Trouble = "none" | "lost" | "dropped" | Code;
const trouble = fc.oneof(
  { weight: 8, arbitrary: fc.constant<Trouble>("none") },
  { weight: 2, arbitrary: fc.constantFrom<Trouble>("lost", "dropped") },
  { weight: 3, arbitrary: fc.constantFrom<Trouble>(...codes.filter((code) => code !== "OK")) },
);

const kinds: Partial<Record<BackendMethod, CallKind>> = {
  create: "create",
  validate: "read",
  delete: "delete",
  publish: "controllerPublish",
  unpublish: "controllerUnpublish",
  expand: "expand",
  modify: "modify",
};

const faultFor = (method: BackendMethod, chosen: Trouble): BackendFault | undefined => {
  const kind = kinds[method];
  if (chosen === "none" || kind === undefined) return undefined;
  if (chosen === "lost" || chosen === "dropped") return { kind: chosen };
  const { outcome, then: next } = verdictOf(kind, chosen);
  if (outcome === "done") return undefined;
  return { kind: outcome, advice: next === "continue" ? "again" : next, code: chosen };
};

const named = (id: string) => ({ namespace: "default", id, uid: "", requestId: "" });
const keep = { reclaim: "retain", nodeLoss: "wait", requiresRepublish: false, identityTokens: [] } as const;

const ask = async (world: World, asked: Request): Promise<void> => {
  const { commands, nodeCommands } = world;
  switch (asked.do) {
    case "create":
      await commands.createVolume(
        volumeInput(asked.volume, {
          capabilities: [capability(asked.mode)],
          contentSource: asked.from === undefined ? { kind: "none" } : { kind: "volume", id: asked.from },
          secretRefs: asked.secret === undefined ? {} : { controllerPublish: `secret:default/${asked.secret}` },
        }),
        caller,
      );
      return;
    case "register":
      await commands.registerVolume(
        {
          ...volumeInput(asked.volume, { capacity: { required: 0, limit: 0 }, policy: keep }),
          plugin,
          capabilities: [capability("SINGLE_NODE_WRITER")],
          externalId: foreign,
          context: {},
          accessible: [],
        },
        caller,
      );
      return;
    case "claim":
      await world.claim(asked.workload, asked.node, asked.volumes, {
        queue: { enabled: asked.queue, deadlineMs: 60_000 },
      });
      return;
    case "release":
      await world.release(asked.workload);
      return;
    case "hand-over":
      await commands.handOver(
        {
          namespace: "default",
          fromWorkload: asked.workload,
          toWorkload: asked.to,
          toNode: asked.node,
          aliases: [],
          deadlineMs: 60_000,
          requestId: "",
        },
        caller,
      );
      return;
    case "expand":
      await commands.expandVolume(
        { ...named(asked.volume), capacity: { required: asked.megabytes * 1_000_000, limit: 0 } },
        caller,
      );
      return;
    case "modify":
      await commands.modifyVolume({ ...named(asked.volume), mutableParameters: { iops: asked.iops } }, caller);
      return;
    case "delete":
      await commands.deleteVolume(named(asked.volume), caller);
      return;
    case "drain":
      await nodeCommands.drainNode(
        { name: asked.node, reason: "test", mode: asked.release ? "release" : "wait", deadlineMs: undefined },
        caller,
      );
      return;
    case "undrain":
      await nodeCommands.undrainNode({ name: asked.node, reason: "test" }, caller);
      return;
    case "put-secret":
      await world.secrets.putSecret(
        { namespace: "default", name: asked.secret, values: { token: asked.value }, requestId: "" },
        caller,
      );
      return;
    case "delete-secret":
      await world.secrets.deleteSecret({ namespace: "default", name: asked.secret, version: 0 }, caller);
      return;
    case "pass":
      await world.pass(asked.seconds * 1_000, 5_000);
      return;
    case "restart":
      await world.restart();
      return;
    case "lose-commits":
      world.store.loseCommits(...asked.how);
      return;
  }
};

/** What callers may be told; anything else is a fault of ours. */
const answers = new Set([
  "ATTACH_LIMIT",
  "CAPABILITY_MISMATCH",
  "CLAIM_CONFLICT",
  "CLAIM_EXISTS",
  "CLAIM_NOT_FOUND",
  "EXTERNAL_VOLUME_LEAVING",
  "INVALID_ARGUMENT",
  "NODE_NOT_READY",
  "PLUGIN_NOT_READY",
  "SECRET_IN_USE",
  "SECRET_NOT_FOUND",
  "STORE_OUTCOME_UNKNOWN",
  "VOLUME_BUSY",
  "VOLUME_EXISTS",
  "VOLUME_IN_USE",
  "VOLUME_NOT_AVAILABLE",
  "VOLUME_NOT_FOUND",
]);

/** An answer may have to wait for time to pass. */
const settled = async (world: World, asked: Request): Promise<void> => {
  let over = false;
  const outcome = ask(world, asked)
    .catch((error: unknown) => {
      if (!world.alive || (isHoldfastError(error) && answers.has(error.reason))) return;
      throw error;
    })
    .finally(() => {
      over = true;
    });
  for (let n = 0; n < 100 && !over; n += 1) await world.clock.advance(50);
  await outcome;
};

const recordOf = (world: World, id: string): Promise<VolumeRecord | undefined> =>
  world.volume(id).catch(() => undefined);

/** Everything works again and nobody wants anything: what was owed is paid, and what cannot be says what it lacks. */
const windDown = async (world: World): Promise<void> => {
  world.backend.chance(undefined);
  world.agents.chance(undefined);
  if (!world.alive) await world.restart();
  for (const name of nodes) await settled(world, { do: "undrain", node: name });
  await world.pass(60_000, 10_000);
  for (const name of workloads) await settled(world, { do: "release", workload: name });
  await world.pass(240_000, 20_000);
  for (const id of volumes) await settled(world, { do: "delete", volume: id });
  await world.pass(240_000, 20_000);
};

const check = async (world: World): Promise<void> => {
  expect(world.violations()).toEqual([]);
  const records = (await Promise.all(volumes.map((id) => recordOf(world, id)))).flatMap((found) => found ?? []);
  for (const record of records) {
    expect(record.blocked, `${record.id} is stuck in silence, ${record.state}`).toBeDefined();
    expect(record.claims).toEqual({});
  }
  expect(world.agents.mounts()).toEqual([]);
  expect(world.backend.attachments()).toEqual([]);
  const owned = new Set(records.map(({ externalId }) => externalId));
  const doubted = new Set(records.map(({ name }) => `ext-${name}`));
  const strays = world.backend.volumes().filter((id) => id !== foreign && !owned.has(id) && !doubted.has(id));
  expect(strays, "leaked").toEqual([]);
  expect(world.backend.volumes(), "not ours").toContain(foreign);
  // Nothing refers to a secret by now but what is blocked.
  for (const name of secrets)
    if (records.length === 0) await world.secrets.deleteSecret({ namespace: "default", name, version: 0 }, caller);
  expect(world.reconciler.size()).toBe(0);
};

const run = async (mode: AccessMode, requests: readonly Request[], troubles: readonly Trouble[]): Promise<void> => {
  const world = await createWorld({ nodes });
  try {
    world.backend.keep(foreign, foreign);
    await ask(world, { do: "put-secret", secret: "s1", value: "x" });
    for (const [id, used] of [
      ["a", undefined],
      ["b", "s1"],
    ] as const)
      await ask(world, { do: "create", volume: id, mode, from: undefined, secret: used });
    await world.idle();
    let n = 0;
    world.backend.chance((method) => {
      n += 1;
      return faultFor(method, troubles[n % troubles.length] ?? "none");
    });
    world.agents.chance((method) => {
      const chosen = troubles[n % troubles.length];
      if (chosen === "lost" || chosen === "dropped") return { kind: chosen };
      return method === "release" && chosen === "ABORTED" ? { kind: "pending", blocked: false } : undefined;
    });
    for (const asked of requests) {
      await settled(world, asked);
      await world.idle();
    }
    await windDown(world);
    await check(world);
  } finally {
    await world.close();
  }
};

it(`whatever is asked in whatever order, over ${sample(5_000, 40)} sequences: nothing leaks and nothing sticks in silence`, {
  timeout: 3_600_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...modes),
      fc.array(request, { minLength: 10, maxLength: full ? 60 : 40, size: "max" }),
      fc.array(trouble, { minLength: 3, maxLength: 20, size: "max" }),
      run,
    ),
    { numRuns: sample(5_000, 40), seed: 20_261_122, endOnFailure: false },
  );
});
