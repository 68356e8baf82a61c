/** Who waits for whom, in the whole reconciler: counted and ordered, on a clock that stands still unless it is told to move. */
import { afterEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";

let world: World;

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const nodeNames = Array.from({ length: 50 }, (_, n) => `n${n}`);
const volumesOf = (count: number): readonly string[] => Array.from({ length: count }, (_, n) => `v${n}`);
const nodeOf = (n: number): string => nodeNames[n % nodeNames.length] ?? "";

const make = async (count: number): Promise<readonly string[]> => {
  const volumes = volumesOf(count);
  for (const id of volumes) await world.makeVolume(id);
  return volumes;
};
const active = async (volumes: readonly string[]): Promise<number> => {
  let count = 0;
  for (const id of volumes)
    if (Object.values((await world.volume(id)).claims).every(({ state }) => state === "ACTIVE")) count += 1;
  return count;
};
/** Lets everything go on that needs no time. */
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 400; turn += 1) await world.clock.advance(0);
};

describe("calls of one plugin", () => {
  it("W17: a hundred attaches of a second each on fifty nodes take two seconds, one at a time a node", async () => {
    world = await createWorld({ nodes: nodeNames });
    const volumes = await make(100);
    let [running, most] = [0, 0];
    world.backend.chance((method) => {
      if (method !== "publish") return undefined;
      running += 1;
      most = Math.max(most, running);
      const until = world.clock.sleep(1_000, new AbortController().signal).then(() => {
        running -= 1;
      });
      return { kind: "held", until };
    });
    const at = world.clock.now();
    await Promise.all(volumes.map((id, n) => world.claim(`w-${id}`, nodeOf(n), [id])));
    for (let n = 0; n < 30 && (await active(volumes)) < volumes.length; n += 1) {
      await settle();
      await world.clock.advance(100);
    }
    expect(await active(volumes)).toBe(100);
    expect(world.clock.now() - at).toBeLessThanOrEqual(3_000);
    expect(most).toBe(50);
  }, 60_000);

  it("W17: a volume whose attach takes ten seconds keeps nobody else waiting, be it for a moment", async () => {
    world = await createWorld({ nodes: nodeNames });
    const volumes = await make(150);
    const slow = (await world.volume("v0")).externalId;
    world.backend.chance((method) =>
      method === "publish" && world.backend.calls.at(-1)?.includes(`${slow}@`) === true
        ? { kind: "held", until: world.clock.sleep(10_000, new AbortController().signal) }
        : undefined,
    );
    const at = world.clock.now();
    await Promise.all(volumes.map((id, n) => world.claim(`w-${id}`, nodeOf(n), [id])));
    for (let n = 0; n < 10 && (await active(volumes)) < 147; n += 1) await settle();
    // Those that have to wait for the node itself, one attach at a time, are two.
    expect(await active(volumes)).toBe(147);
    expect(world.clock.now()).toBe(at);
    await world.clock.advance(10_000);
    for (let n = 0; n < 10 && (await active(volumes)) < 150; n += 1) await settle();
    expect(await active(volumes)).toBe(150);
  }, 60_000);
});

describe("a volume that is given back", () => {
  it("is the next claimant's in the same breath: no timer, no poll, the detach of one before the attach of the other", async () => {
    world = await createWorld({ nodes: ["n1", "n2"] });
    await world.makeVolume("data");
    await world.claim("old", "n1", ["data"]);
    await world.idle();
    await world.claim("new", "n2", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.idle();
    expect(await world.states("new")).toEqual(["QUEUED"]);
    const [at, calls, commits] = [world.clock.now(), world.backend.calls.length, world.store.commits()];
    await world.release("old");
    await settle();
    expect(await world.states("new")).toEqual(["ACTIVE"]);
    expect(world.clock.now()).toBe(at);
    const order = world.backend.calls.slice(calls).map((call) => call.split(" ")[0]);
    expect(order).toEqual(["unpublish", "publish"]);
    // Three for the release, three for the claim: nothing was written in between to get there.
    expect(world.store.commits() - commits).toBe(6);
  });
});

describe("a plugin that answers ABORTED", () => {
  it("C23: is asked the same again with growing gaps, and nothing else about the volume meanwhile", async () => {
    world = await createWorld({ nodes: ["n1"] });
    await world.makeVolume("data");
    const aborted = { kind: "unknown", advice: "wait", code: "ABORTED" } as const;
    world.backend.script("publish", aborted, aborted, aborted, aborted);
    const before = world.backend.calls.length;
    const asked: number[] = [];
    world.backend.chance(() => undefined);
    await world.claim("web", "n1", ["data"]);
    for (let n = 0; n < 600 && (await world.states("web"))[0] !== "ACTIVE"; n += 1) {
      await world.pass(50);
      while (asked.length < world.backend.calls.length - before) asked.push(world.clock.now());
    }
    const calls = world.backend.calls.slice(before);
    expect(new Set(calls).size).toBe(1);
    expect(calls).toHaveLength(5);
    const gaps = asked.slice(1).map((at, n) => at - (asked[n] ?? 0));
    for (const [n, gap] of gaps.entries()) if (n > 0) expect(gap).toBeGreaterThan(gaps[n - 1] ?? 0);
  });
});
