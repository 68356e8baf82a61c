/** Two controllers on one store: this one has a record in its memory, and the store has another by the time the call would leave. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { caller, createWorld, plugin, volumeInput, type World } from "../../../../test/support/controller/world.ts";
import { noChange } from "../domain/change.ts";
import { takenOver } from "../domain/open-call.ts";
import type { VolumeRecord } from "../domain/volume.ts";
import { createChanges } from "../records/changes.ts";
import { createVolumeRecords, type VolumeRecords } from "../records/volume-records.ts";

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
