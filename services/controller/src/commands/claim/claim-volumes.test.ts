/** Claims that bring their volumes, through whole controllers that die at any commit and any call. */
import { createSqliteStore } from "@holdfast/controller/store/sqlite/sqlite-store";
import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, describe, expect, it } from "vitest";
import {
  caller,
  capability,
  claimsInput,
  createWorld,
  volumeInput,
  type World,
} from "../../../../../test/support/controller/world.ts";
import { unclaimedMs } from "../../domain/claim/ephemeral.ts";
import { checkId } from "../../domain/limits.ts";
import { cutRecord } from "../../domain/testing/record-fixtures.ts";
import type { Store } from "../../ports.ts";
import { reconcileFailpoints } from "../../reconcile/failpoints.ts";
import { encodeCut } from "../../records/snapshot-codec.ts";
import { commitOf } from "../../store/test-commits.ts";
import type { CreateClaimsInput, CreateVolumeInput } from "../model.ts";

let world: World;
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const id = claimVolumeId("web", "scratch");
const template = (lifetime: "ephemeral" | "retain", change: Partial<CreateVolumeInput> = {}): CreateVolumeInput => ({
  ...volumeInput(id, { lateBinding: true, ...change }),
  ...(lifetime === "ephemeral" ? { ephemeral: { workload: "web", alias: "scratch" } } : {}),
});
const order = (
  lifetime: "ephemeral" | "retain" = "ephemeral",
  node = "n1",
  change: Partial<CreateVolumeInput> = {},
): CreateClaimsInput => ({
  ...claimsInput("web", node, []),
  claims: [
    { volume: id, alias: "scratch", capability: capability(), readOnly: false, template: template(lifetime, change) },
  ],
});
const selection = { namespace: "default", workload: "web", aliases: [], claimUids: [] };
const claim = (asked: CreateClaimsInput = order()) => world.commands.createClaims(asked, caller);
const release = () => world.commands.releaseClaims(selection, caller);
const record = async () => (await world.records.get({ namespace: "default", id }))?.volume;
const count = async () => await world.countOf({ index: "volume-all", value: "all" });

describe("a claim that brings its volume", () => {
  it("has it made for its node, and mounted; an ephemeral one is gone with its release, with its storage", async () => {
    world = await createWorld();
    await claim();
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(await record()).toMatchObject({ binding: { node: "n1" }, ephemeral: { workload: "web", claimed: true } });
    await release();
    await world.pass(5_000);
    expect(await record()).toBeUndefined();
    expect(world.backend.volumes()).toEqual([]);
    // A claim that is made anew has a new one.
    await claim();
    await world.idle();
    expect(await world.states("web")).toContain("ACTIVE");
    expect(world.backend.volumes()).toHaveLength(1);
  });

  it("finds the one that was kept again, with what is in it", async () => {
    world = await createWorld();
    await claim(order("retain"));
    await world.idle();
    const before = world.backend.volumes();
    await release();
    await world.pass(5_000);
    expect(await record()).toMatchObject({ state: "AVAILABLE" });
    await claim(order("retain"));
    await world.idle();
    expect(world.backend.volumes()).toEqual(before);
    expect(await world.states("web")).toContain("ACTIVE");
  });

  it("is the same claim when it is asked for again, and refused with other content", async () => {
    world = await createWorld();
    const [first] = await claim();
    await world.idle();
    const [again] = await claim();
    expect(again?.claim.uid).toBe(first?.claim.uid);
    await expect(claim(order("ephemeral", "n1", { parameters: { type: "fast" } }))).rejects.toMatchObject({
      reason: "VOLUME_EXISTS",
      metadata: { field: "parameters" },
    });
    await expect(claim(order("retain"))).rejects.toMatchObject({ reason: "VOLUME_EXISTS" });
    expect(await record()).toMatchObject({ state: "AVAILABLE" });
  });

  it("waits for what a former life of it leaves: its data is never given to the next", async () => {
    world = await createWorld();
    await claim();
    await world.idle();
    world.backend.script("delete", { kind: "unknown", advice: "again", code: "UNAVAILABLE" });
    await release();
    await expect(claim()).rejects.toMatchObject({ kind: "aborted", reason: "VOLUME_BUSY" });
    await world.idle();
    expect(await record()).toMatchObject({ goal: "absent" });
    await expect(claim()).rejects.toMatchObject({ kind: "aborted", reason: "VOLUME_BUSY" });
    await world.pass(60_000);
    await claim();
    await world.idle();
    expect(await world.states("web")).toContain("ACTIVE");
  });

  it("leaves nothing when it is refused, and when nobody repeats a request that was cut", async () => {
    world = await createWorld();
    await expect(claim(order("ephemeral", "nowhere"))).rejects.toMatchObject({ reason: "NODE_NOT_FOUND" });
    expect(await count()).toBe(0);
    // The volume is stored, and the claim is not.
    world.store.failCommits(99, 1);
    await expect(claim()).rejects.toMatchObject({ kind: "unavailable" });
    world.store.failCommits(0, 0);
    expect(await record()).toMatchObject({ state: "CREATING", binding: { node: "" } });
    await world.pass(unclaimedMs - 60_000);
    expect(await count()).toBe(1);
    await world.pass(120_000);
    expect(await count()).toBe(0);
    expect(world.backend.calls).toEqual([]);
  });

  it("stays while a snapshot is being cut from it, and goes behind that", async () => {
    world = await createWorld();
    await claim();
    await world.idle();
    const cut = cutRecord({
      namespace: "default",
      volume: id,
      volumeUid: (await record())?.uid ?? "",
      state: "CREATING",
    });
    const { write } = encodeCut(cut, 0, world.clock.now());
    await world.store.commit(commitOf([write]));
    await release();
    await world.pass(120_000);
    expect(await record()).toMatchObject({ goal: "present", claims: {} });
    await world.store.commit(commitOf([{ ...write, expectedRev: 1, body: null }]));
    await world.pass(120_000);
    expect(await record()).toBeUndefined();
  });

  it("ends with a plugin that refuses to make it, and leaves no record", async () => {
    world = await createWorld();
    world.backend.script("create", { kind: "refused", advice: "fail", code: "OUT_OF_RANGE" });
    await claim();
    await world.pass(5_000);
    expect(await world.states("web")).toEqual(["FAILED"]);
    expect(await count()).toBe(0);
    expect(world.backend.volumes()).toEqual([]);
  });

  it("is not taken away while the store is not vetted: the record may be older than a claim", async () => {
    world = await createWorld();
    await claim();
    await world.idle();
    world.gate.set(false);
    await release();
    await world.pass(120_000);
    expect(await record()).toMatchObject({ goal: "present" });
    world.gate.set(true);
    await world.pass(120_000);
    expect(await count()).toBe(0);
  });
});

describe("[I4] a controller that dies on the way", () => {
  /** Dies at its nth commit: nothing is stored from then on, until the next life. */
  const dyingStore = () => {
    const sqlite = createSqliteStore({ file: ":memory:", now: () => 1, uuid: () => crypto.randomUUID() });
    const doom = { left: Number.POSITIVE_INFINITY, how: "before" as "before" | "after", dead: false };
    const gone = () =>
      new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "the controller is dead" });
    const store: Store = {
      ...sqlite,
      async commit(commit) {
        if (doom.dead) throw gone();
        if (doom.left-- > 0) return await sqlite.commit(commit);
        doom.dead = true;
        if (doom.how === "after") await sqlite.commit(commit);
        throw gone();
      },
    };
    return { store, doom };
  };
  const reborn = async (doom: ReturnType<typeof dyingStore>["doom"]): Promise<void> => {
    doom.dead = false;
    doom.left = Number.POSITIVE_INFINITY;
    await world.restart();
    await world.pass(1_000);
  };
  /** The same request until it is answered, as a scheduler asks. */
  const until = async (ask: () => Promise<unknown>): Promise<void> => {
    for (let n = 0; n < 5; n += 1) {
      const answered = await ask().then(
        () => true,
        () => false,
      );
      await world.pass(2_000);
      if (answered) return;
    }
    throw new Error("it is never answered");
  };

  const moments = Array.from({ length: 8 }, (_, nth) =>
    (["before", "after"] as const).map((how) => ({ nth, how })),
  ).flat();
  it("at any commit of the claim or of its release makes no second volume, and leaves none", async () => {
    for (const at of ["claim", "release"] as const)
      for (const { nth, how } of moments) {
        const what = `${at}: ${how} commit ${nth}`;
        const { store, doom } = dyingStore();
        world = await createWorld({ store });
        const dying = async (ask: () => Promise<unknown>): Promise<void> => {
          Object.assign(doom, { left: nth, how });
          await ask().catch(() => undefined);
          await world.pass(2_000);
          await reborn(doom);
        };
        if (at === "claim") await dying(claim);
        await until(claim);
        expect([await world.states("web"), world.backend.volumes().length, await count()], what).toEqual([
          ["ACTIVE"],
          1,
          1,
        ]);
        if (at === "release") await dying(release);
        await until(release);
        await world.pass(60_000);
        expect([world.backend.volumes(), await count()], what).toEqual([[], 0]);
        expect(world.violations()).toEqual([]);
        if (!(at === "release" && nth === 7 && how === "after")) await world.close();
      }
  });

  it.each(reconcileFailpoints.filter((name) => /create|attach|offer|release|detach|delete/.test(name)))(
    "at %s makes no second volume, and leaves none",
    async (name) => {
      world = await createWorld();
      world.killAt(name);
      await claim().catch(() => undefined);
      await world.pass(2_000);
      if (!world.alive) await world.restart();
      await until(claim);
      expect([await world.states("web"), world.backend.volumes().length]).toEqual([["ACTIVE"], 1]);
      await release().catch(() => undefined);
      await world.pass(2_000);
      if (!world.alive) await world.restart();
      await until(release);
      await world.pass(60_000);
      expect([world.backend.volumes(), await count()]).toEqual([[], 0]);
    },
  );
});

describe("the id of a claim's volume", () => {
  it("is one for each key, also where keys read the same or are long, and always an id", () => {
    const keys = [
      ["a", "b-c"],
      ["a-b", "c"],
      ["w".repeat(64), "x".repeat(64)],
      ["w".repeat(64), `${"x".repeat(63)}y`],
    ] as const;
    const made = keys.map(([workload, alias]) => claimVolumeId(workload, alias));
    expect(new Set(made).size).toBe(keys.length);
    for (const one of made) expect(one).toMatch(/^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/);
    expect(claimVolumeId("web-1", "scratch")).toMatch(/^web-1-scratch-[0-9a-f]{16}$/);
    expect(claimVolumeId("Web #1..ä", "scratch")).toMatch(/^web-1-scratch-[0-9a-f]{16}$/);
    for (const workload of ["Ж", "..", "_", "a..b", "x".repeat(256)])
      expect(checkId("id", claimVolumeId(workload, "scratch")), workload).toEqual([]);
  });
});
