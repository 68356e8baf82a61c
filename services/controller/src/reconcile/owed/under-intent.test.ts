/** Two controllers on one store: this one has a record in its memory, and the store has another by the time the call would leave. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createWorld, plugin, volumeInput, type World } from "../../../../../test/support/controller/world.ts";
import { noChange } from "../../domain/change.ts";
import { takenOver } from "../../domain/open-call.ts";
import type { Outcome } from "../../domain/outcome.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { createChanges } from "../../records/changes.ts";
import { createVolumeRecords, type VolumeRecords } from "../../records/volume/volume-records.ts";

let world: World;
let others: VolumeRecords;
const stop = new AbortController();
const data = { namespace: "default", id: "data" };

beforeEach(async () => {
  world = await createWorld();
  const { store, clock, log, attachLimit } = world;
  const ids = { uuid: () => randomUUID(), random: () => 0.5 };
  const deps = { store, clock, ids, log, attachLimit, issuer: "c2/1", changes: createChanges(), signal: stop.signal };
  others = createVolumeRecords(deps);
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

/** The other controller changes the record while the next call of this kind waits to leave. This one is told nothing. */
const meanwhile = (
  method: "publish" | "unpublish" | "createVolume" | "deleteVolume" | "expandVolume" | "modifyVolume",
  change: (v: VolumeRecord) => VolumeRecord,
): void => {
  const made = world.backend[method] as (...args: unknown[]) => Promise<unknown>;
  const late = async (...args: unknown[]): Promise<unknown> => {
    Object.assign(world.backend, { [method]: made });
    const settles = { opId: (await others.get(data))?.volume.intent?.opId ?? "", end: "ended" } as const;
    await others.change(data, (v) => noChange(change(v)), { settles });
    return await made(...args);
  };
  Object.assign(world.backend, { [method]: late });
};

const called = (method: string): number => world.backend.calls.filter((c) => c.startsWith(`${method} `)).length;

/** As a person's word does: the call is nobody's any more, and its next one another controller's. */
const takenByAnother = (v: VolumeRecord): VolumeRecord => {
  const at = { now: world.clock.now(), issuer: "c2/1", opId: "another", random: 0, retry: { baseMs: 1, capMs: 1 } };
  const free = takenOver(v, at);
  return free.intent === undefined ? free : { ...free, intent: { ...free.intent, issuer: "c2/1", via: "elsewhere" } };
};
/** Another controller has gone on with the call, and the undo of its pair is owed. */
const givenUp = (v: VolumeRecord): VolumeRecord => ({
  ...v,
  ...(v.intent === undefined ? {} : { intent: { ...v.intent, openSince: 1, uncertainSince: 1 } }),
  attachments: Object.fromEntries(
    Object.entries(v.attachments).map(([node, a]) => [node, { ...a, state: "DETACHING" as const }]),
  ),
  claims: Object.fromEntries(
    Object.entries(v.claims).map(([uid, c]) => [uid, { ...c, state: "DETACHING" as const, goal: "released" as const }]),
  ),
});
const remove = () => world.commands.deleteVolume({ ...data, uid: "", requestId: "" }, caller);

describe("a call whose record another controller has changed leaves no more", () => {
  it("ControllerPublishVolume of a claim that is released by now", async () => {
    await world.makeVolume("data");
    meanwhile("publish", (v) => ({
      ...v,
      claims: Object.fromEntries(Object.entries(v.claims).map(([uid, c]) => [uid, { ...c, goal: "released" }])),
    }));
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(called("publish")).toBe(0);
  });

  it("ControllerUnpublishVolume of a pair that is not DETACHING any more", async () => {
    await world.makeVolume("data");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    meanwhile("unpublish", (v) => ({
      ...v,
      attachments: Object.fromEntries(
        Object.entries(v.attachments).map(([node, a]) => [node, { ...a, state: "ATTACHED" as const }]),
      ),
    }));
    await world.release("web");
    await world.idle();
    expect(called("unpublish")).toBe(0);
  });

  it("any call that another controller makes now", async () => {
    meanwhile("createVolume", takenByAnother);
    await world.commands.createVolume(volumeInput("data"), caller);
    await world.idle();
    expect(called("create")).toBe(0);
  });

  it.each([
    ["publish", "publish", () => world.claim("web", "n1", ["data"])],
    ["deleteVolume", "delete", remove],
    [
      "expandVolume",
      "expand",
      () =>
        world.commands.expandVolume({ ...data, capacity: { required: 9_000_000, limit: 0 }, requestId: "" }, caller),
    ],
    [
      "modifyVolume",
      "modify",
      () => world.commands.modifyVolume({ ...data, mutableParameters: { tier: "gold" }, requestId: "" }, caller),
    ],
  ] as const)("%s that another controller makes now", async (method, word, ask) => {
    await world.makeVolume("data", { mutableParameters: { tier: "bronze" } });
    meanwhile(method, takenByAnother);
    await ask();
    await world.idle();
    expect(called(word)).toBe(0);
  });

  it("a call under an intent that another controller holds by now, whatever else it says", async () => {
    await world.makeVolume("data");
    meanwhile("publish", (v) => (v.intent === undefined ? v : { ...v, intent: { ...v.intent, issuer: "c2/1" } }));
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(called("publish")).toBe(0);
  });

  it("and none leaves while the store cannot be read", async () => {
    await world.makeVolume("data");
    const { getMany } = world.store;
    let away = true;
    world.store.getMany = async (refs) => {
      if (away && refs.some(({ key }) => key === "default/data")) throw new Error("the store is away");
      return await getMany(refs);
    };
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect([called("publish"), (await world.records.recent(data))?.volume.plugin]).toEqual([0, plugin]);
    away = false;
    await world.pass(60_000);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });
});

describe("the order of a call", () => {
  type Call = Parameters<typeof world.backend.publish>[2];
  type Leave = Awaited<ReturnType<NonNullable<Call["wanted"]>>>;

  const stale: Outcome<never> = {
    kind: "unknown",
    failure: { reason: "STALE_ORDER", message: "a later one has left", advice: "wait", call: "not-sent" },
  };
  let orders: Leave[];

  /** The first `times` attaches are refused by the holder of the socket, or end so; what each carries is noted. */
  const refusing = (times: number, end = stale): void => {
    orders = [];
    const { publish } = world.backend;
    world.backend.publish = async (volume, attachment, call) => {
      const noted = async (instance: string): Promise<Leave> => {
        const leave = await call.wanted?.(instance);
        orders.push(leave);
        return leave;
      };
      if (orders.length >= times) return await publish(volume, attachment, { ...call, wanted: noted });
      await noted(volume.intent?.via ?? "");
      return end;
    };
  };
  const stored = async () => {
    const { volume, rev } = (await world.records.get(data)) ?? {};
    return { intent: volume?.intent, claims: Object.values(volume?.claims ?? {}), rev };
  };

  it("that is refused as stale changes nothing of the record; the attempt is stored anew, and leaves with a later one", async () => {
    await world.makeVolume("data");
    refusing(2);
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    const before = await stored();
    expect(before.claims).toMatchObject([{ state: "ATTACHING", attempts: { count: 0 } }]);
    expect(before.intent).not.toHaveProperty("uncertainSince");
    expect(before.intent).not.toHaveProperty("openSince");
    await world.pass(499);
    expect((await stored()).rev).toBe(before.rev);
    await world.pass(600);
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(called("publish")).toBe(1);
    const sequences = orders.map((leave) => leave?.order?.sequence ?? 0);
    expect(sequences).toEqual([...new Set(sequences)].toSorted((a, b) => a - b));
    expect(new Set(orders.map((leave) => leave?.order?.opId)).size).toBe(3);
    expect(orders[0]?.order?.opId).toBe(before.intent?.opId);
  });

  it("U3 is another one after a call that may be open, although its end changes nothing of the record", async () => {
    await world.makeVolume("data");
    const silent = { reason: "DEADLINE_EXCEEDED", message: "no answer", advice: "again" } as const;
    refusing(1, { kind: "unknown", failure: silent });
    const { publish } = world.backend;
    world.backend.publish = async (...args) => {
      world.backend.publish = publish;
      const answer = await publish(...args);
      await others.change(data, (v) => noChange(givenUp(v)));
      return answer;
    };
    await world.claim("web", "n1", ["data"]);
    await world.pass(5_000);
    expect(await world.states("web")).toEqual(["RELEASED"]);
    const [first, second] = orders.map((leave) => leave?.order?.sequence ?? 0);
    expect(second).toBeGreaterThan(first ?? Number.POSITIVE_INFINITY);
  });

  it("is not made up: an attempt whose commit was not heard of is stored anew before its call leaves", async () => {
    await world.makeVolume("data");
    refusing(0);
    const { publish } = world.backend;
    let before = "";
    world.backend.publish = async (volume, attachment, call) => {
      world.backend.publish = publish;
      before = volume.intent?.opId ?? "";
      world.records.orders.forget("default/data");
      return await publish(volume, attachment, call);
    };
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(called("publish")).toBe(1);
    expect(orders.map((leave) => leave?.order === undefined)).toEqual([true, false]);
    expect(orders[1]?.order?.opId).not.toBe(before);
  });
});
