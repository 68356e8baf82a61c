import { beforeEach, describe, expect, it, vi } from "vitest";
import { capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Store } from "../../ports.ts";
import { createChanges } from "../changes.ts";
import { createVolumeRecords } from "./volume-records.ts";

let world: World;
const ref = { namespace: "default", id: "data" };

beforeEach(async () => {
  world = await createWorld();
  await world.makeVolume("data");
  return () => world.close();
});

/** Another controller over the same store. */
const other = (store: Store = world.store, changes = createChanges()) =>
  createVolumeRecords({
    store,
    clock: world.clock,
    ids: { uuid: () => `other-${Math.trunc(world.clock.monotonic())}-${serial()}`, random: () => 0.5 },
    issuer: "c2/1",
    changes,
    attachLimit: world.attachLimit,
    log: world.log,
    signal: new AbortController().signal,
  });

const serial = (() => {
  let n = 0;
  return () => {
    n += 1;
    return n;
  };
})();

const label = (key: string) => (volume: VolumeRecord) => ({
  volume: { ...volume, labels: { ...volume.labels, [key]: "yes" } },
  ended: [],
  notes: [],
});

const run = async <T>(work: Promise<T>): Promise<T> => {
  let done = false;
  const end = () => {
    done = true;
  };
  work.then(end, end);
  for (let n = 0; n < 100 && !done; n += 1) await world.clock.advance(50);
  return await work;
};

describe("decisions over volume records", () => {
  it("are made again when another controller was faster, and neither is lost", async () => {
    const foreign = other();
    await foreign.change(ref, label("theirs"));
    const result = await run(world.records.change(ref, label("ours")));
    expect(result.volume?.labels).toEqual({ ours: "yes", theirs: "yes" });
    expect((await foreign.get(ref))?.rev).toBe(result.rev);
  });

  it("of many at once all take part", async () => {
    const controllers = [world.records, other(), other()];
    await run(Promise.all(Array.from({ length: 30 }, (_, i) => controllers[i % 3]?.change(ref, label(`l${i}`)))));
    expect(Object.keys((await world.volume("data")).labels)).toHaveLength(30);
  });

  it("that change nothing are made from what the store has now, not from memory", async () => {
    const foreign = other();
    await foreign.change(ref, label("theirs"));
    const seen: object[] = [];
    await run(
      world.records.change(ref, (volume) => {
        seen.push(volume.labels);
        return { volume, ended: [], notes: [] };
      }),
    );
    expect(seen.at(-1)).toEqual({ theirs: "yes" });
  });

  it("that throw are made from what the store has now, not from memory", async () => {
    const foreign = other();
    await foreign.change(ref, label("theirs"));
    const result = await run(
      world.records.change(ref, (volume) => {
        if (volume.labels["theirs"] === undefined) throw new Error("too early");
        return label("ours")(volume);
      }),
    );
    expect(result.volume?.labels).toEqual({ ours: "yes", theirs: "yes" });
  });

  it("over several volumes are stored together or not at all", async () => {
    await world.makeVolume("more");
    const refs = [ref, { namespace: "default", id: "more" }];
    const foreign = other();
    await foreign.change(refs[1] ?? ref, label("theirs"));
    const before = world.store.commits();
    let rounds = 0;
    await run(
      world.records.changeMany(refs, (volumes) => {
        rounds += 1;
        return volumes.map((v) => (v === undefined ? undefined : label("ours")(v)));
      }),
    );
    expect(rounds).toBe(2);
    expect(world.store.commits() - before).toBe(2);
    for (const id of ["data", "more"]) expect((await world.volume(id)).labels).toHaveProperty("ours");
  });

  it("answer nothing for a volume that is not there", async () => {
    const result = await world.records.change({ namespace: "default", id: "none" }, label("x"));
    expect(result).toEqual({ volume: null, rev: 0, ended: [], changed: false });
  });

  it("give up with a word that says repeat when others never stop", async () => {
    const foreign = other();
    const inner = world.store.commit;
    const rival: Store = {
      ...world.store,
      commit: async (commit) => {
        await foreign.change(ref, label(`x${serial()}`));
        return await inner(commit);
      },
    };
    const racing = other(rival);
    await expect(run(racing.change(ref, label("never")))).rejects.toMatchObject({
      kind: "aborted",
      reason: "REVISION_CONFLICT",
      metadata: { volume: "data" },
    });
    expect((await world.records.get(ref))?.volume.labels).not.toHaveProperty("never");
  });
});

describe("what is listed", () => {
  it("follows claims, nodes, workloads and what is owed, and ends with them", async () => {
    const listed = async (index: Parameters<World["records"]["list"]>[0], value: string) =>
      (await world.records.list(index, value, { limit: 10 })).volumes.map((v) => v.volume.id);
    expect(await listed("volume-unsettled", "all")).toEqual([]);
    world.backend.script("publish", { kind: "dropped" });
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await listed("volume-unsettled", "all")).toEqual(["data"]);
    expect(await listed("claim-node", "n1")).toEqual(["data"]);
    expect(await listed("claim-workload", "default/web")).toEqual(["data"]);
    await world.pass(5_000);
    expect(await listed("volume-unsettled", "all")).toEqual([]);
    expect(await world.records.nextDue()).toBeUndefined();
    await world.release("web");
    await world.idle();
    expect(await listed("claim-node", "n1")).toEqual([]);
    expect(await listed("claim-workload", "default/web")).toEqual([]);
    expect(await listed("volume-namespace", "default")).toEqual(["data"]);
    const ended = await world.records.listEnded("over-workload", "default/web", { limit: 10 });
    expect(ended.claims.map((c) => c.state)).toEqual(["RELEASED"]);
  });

  it("tells how a claim ended here without asking the store, until it is told to forget", async () => {
    const [asked] = await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.release("web");
    await world.idle();
    const get = vi.spyOn(world.store, "get");
    const life = { namespace: "default", volume: "data", workload: "web", alias: "data", uid: asked?.claim.uid ?? "" };
    const ended = await world.records.ended(life);
    expect(ended).toMatchObject({ ...life, state: "RELEASED" });
    expect(get).not.toHaveBeenCalled();
    expect(await other().ended(life)).toEqual(ended);
    world.records.forgetAll();
    expect(await world.records.ended(life)).toEqual(ended);
    expect(get).toHaveBeenCalledTimes(2);
  });

  it("forgets tombstones after seven days", async () => {
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    await world.release("web");
    await world.idle();
    const ended = async () => (await world.records.listEnded("over-workload", "default/web", { limit: 10 })).claims;
    await world.clock.advance(6 * 24 * 3_600_000);
    expect(await ended()).toHaveLength(1);
    await world.clock.advance(25 * 3_600_000);
    expect(await ended()).toEqual([]);
  });

  it("keeps a claim that waits to be granted out of the way of the due queue", async () => {
    await world.makeVolume("shared", { capabilities: [capability("SINGLE_NODE_SINGLE_WRITER")] });
    await world.claim("one", "n1", ["shared"]);
    await world.idle();
    await world.claim("two", "n2", ["shared"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.idle();
    const before = world.store.commits();
    await world.pass(290_000, 10_000);
    expect(world.store.commits()).toBe(before);
  });
});

describe("what another controller wrote", () => {
  const key = "default/data";

  it("wakes the waiters also when a read has brought its revision before the event", async () => {
    const changes = createChanges();
    const here = other(world.store, changes);
    const since = changes.version();
    const { rev } = await world.records.change(ref, label("theirs"));
    expect((await here.get(ref))?.rev).toBe(rev);
    let woken = false;
    const waiting = changes.wait([key], since, new AbortController().signal).then(() => {
      woken = true;
    });
    await here.learnOf(key, rev);
    await Promise.resolve();
    expect(woken).toBe(true);
    await waiting;
  });

  it("is not forgotten for a read that was overtaken by it", async () => {
    const overtaken: { release?: () => void } = {};
    const store: Store = {
      ...world.store,
      getMany: async (refs) => {
        const found = await world.store.getMany(refs);
        await new Promise<void>((resolve) => {
          overtaken.release = resolve;
        });
        return found;
      },
    };
    const here = other(store);
    const early = here.get(ref);
    await vi.waitFor(() => expect(overtaken.release).toBeDefined());
    const { rev } = await world.records.change(ref, label("theirs"));
    await here.learnOf(key, rev);
    overtaken.release?.();
    expect((await early)?.rev).toBe(rev - 1);
    const late = here.recent(ref);
    await Promise.resolve();
    overtaken.release?.();
    expect((await late)?.rev).toBe(rev);
  });
});

it("counts its commits", async () => {
  const before = world.records.commits();
  await world.records.change(ref, label("a"));
  expect(world.records.commits() - before).toBe(1);
});
