import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { describe, expect, it, onTestFinished } from "vitest";
import type { StoredEvent } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { type ChangeFeedDeps, runChangeFeed } from "./change-feed.ts";
import { createChanges, nodeChangeKey } from "./changes.ts";

const never = new AbortController().signal;
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

const settled = async (promise: Promise<unknown>): Promise<boolean> => {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await turn();
  return done;
};

describe("changes", () => {
  it("wake who waits for one of their keys and nobody else", async () => {
    const changes = createChanges();
    const a = changes.wait(["a", "b"], changes.version(), never);
    const c = changes.wait(["c"], changes.version(), never);
    changes.publish("b");
    expect(await settled(a)).toBe(true);
    expect(await settled(c)).toBe(false);
    changes.publish("c");
    await c;
    expect(changes.waiting()).toBe(0);
  });

  it("between reading and waiting are not missed", async () => {
    const changes = createChanges();
    const since = changes.version();
    changes.publish("a");
    await changes.wait(["a"], since, never);
    expect(await settled(changes.wait(["a"], changes.version(), never))).toBe(false);
  });

  it("that are no longer remembered wake rather than be missed", async () => {
    const changes = createChanges(2);
    const since = changes.version();
    for (const key of ["a", "b", "c", "d"]) changes.publish(key);
    await changes.wait(["a"], since, never);
    await changes.wait(["z"], since, never);
    expect(await settled(changes.wait(["z"], changes.version(), never))).toBe(false);
  });

  it("an aborted wait rejects and leaves nothing behind", async () => {
    const changes = createChanges();
    const controller = new AbortController();
    const wait = changes.wait(["a", "b"], changes.version(), controller.signal);
    controller.abort(new Error("enough"));
    await expect(wait).rejects.toThrow("enough");
    await expect(changes.wait(["a"], 0, controller.signal)).rejects.toThrow("enough");
    expect(changes.waiting()).toBe(0);
  });

  it("that were missed wake everybody", async () => {
    const changes = createChanges();
    const waits = ["a", "b"].map((key) => changes.wait([key], changes.version(), never));
    changes.publishAll();
    await Promise.all(waits);
  });
});

describe("the feed of other controllers' changes", () => {
  const event = (
    key: string,
    token: string,
    body: object,
    kind: "volume" | "node" | "snapshot" | "plugin" = "volume",
  ): StoredEvent => ({
    token,
    type: kind,
    ref: { kind, key },
    body: JSON.stringify(body),
  });

  const trimmed = new HoldfastError({ kind: "out_of_range", reason: "EVENTS_TRIMMED", message: "pruned" });
  const away = new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "away" });

  /** A feed of a store whose watches tell these events one after the other, each until its error. */
  const following = (scripts: (readonly (StoredEvent | Error)[])[], deps: Partial<ChangeFeedDeps> = {}) => {
    const [clock, changes, life] = [createManualClock(), createChanges(), new AbortController()];
    const watched: string[] = [];
    const learned: string[] = [];
    const took = async (what: string): Promise<void> => void learned.push(what);
    let looks = 0;
    let heads = 0;
    const store = {
      head: async () => {
        heads += 1;
        return `head-${heads}`;
      },
      async *watch(after: string, signal: AbortSignal) {
        watched.push(after);
        for (const item of scripts.shift() ?? []) {
          if (item instanceof Error) throw item;
          yield item;
        }
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
      },
    } as unknown as Store;
    const feed = runChangeFeed({
      store,
      records: { learnOf: (key, { rev }) => took(`${key}@${rev ?? "?"}`) },
      async lookAgain() {
        looks += 1;
      },
      missed: async () => undefined,
      learnOfPlugin: took,
      learnOfNode: took,
      learnOfLimit: took,
      learnOfGrant: took,
      learnOfDenial: took,
      learnOfCut: (cut) => void learned.push(cut),
      secretChanged: ({ namespace, name }) => void learned.push(`${namespace}/${name}`),
      changes,
      clock,
      log: createMemoryLogger(),
      signal: life.signal,
      ...deps,
    });
    feed.catch(() => undefined);
    onTestFinished(async () => {
      life.abort(new Error("over"));
      await expect(feed).rejects.toThrow("over");
    });
    return { clock, changes, watched, learned, looks: () => looks };
  };

  it("goes on from where it was, and looks at everything again when events were pruned", async () => {
    const { clock, changes, watched, learned, looks } = following([
      [event("default/a", "1", { rev: 4 }), away],
      [event("default/b", "2", {}), event("n1", "3", {}, "node"), trimmed],
      [event("default/c", "9", { rev: 1 }), event("default/s", "10", {}, "snapshot")],
    ]);
    const node = changes.wait([nodeChangeKey("n1")], changes.version(), never);
    await clock.advance(5_000);
    await clock.advance(5_000);
    await node;
    expect(watched).toEqual(["head-1", "1", "head-2"]);
    expect(learned).toEqual(["default/a@4", "default/b@?", "n1", "default/c@1", "snapshot:default/s"]);
    expect(looks()).toBe(2);
  });

  it("looks at everything again when what an event tells could not be read, and until that could be", async () => {
    const failing = { plugin: 1, looks: 0 };
    const { clock, watched } = following([[event("p", "1", {}, "plugin")]], {
      async learnOfPlugin() {
        failing.plugin -= 1;
        if (failing.plugin === 0) throw away;
      },
      async lookAgain() {
        failing.looks += 1;
        if (failing.looks === 2) throw away;
      },
    });
    for (let n = 0; n < 5; n += 1) await clock.advance(1_000);
    expect(watched).toEqual(["head-1", "head-3"]);
    expect(failing.looks).toBe(3);
  });

  it("looks for what others left from each new position, beside following it, and anew when the store does not tell", async () => {
    const asked: PromiseWithResolvers<void>[] = [];
    const { clock, watched, learned } = following([[event("default/a", "1", {})], [event("default/b", "2", {})]], {
      missed() {
        const one = Promise.withResolvers<void>();
        asked.push(one);
        return one.promise;
      },
    });
    await clock.advance(0);
    expect([asked.length, watched, learned]).toEqual([1, ["head-1"], ["default/a@?"]]);
    asked[0]?.reject(away);
    await clock.advance(1_000);
    expect([asked.length, watched, learned]).toEqual([2, ["head-1", "head-2"], ["default/a@?", "default/b@?"]]);
    asked[1]?.resolve();
    await clock.advance(10_000);
    expect([asked.length, watched.length]).toEqual([2, 2]);
  });

  it("looks for what others left once more when the store did not tell between two watches", async () => {
    let looks = 0;
    const first = Promise.withResolvers<void>();
    const { clock, watched } = following([[event("default/a", "1", {}), away]], {
      missed: () => {
        looks += 1;
        return looks === 1 ? first.promise : Promise.resolve();
      },
    });
    await clock.advance(0);
    first.reject(away);
    for (let n = 0; n < 3; n += 1) await clock.advance(1_000);
    expect([looks, watched]).toEqual([2, ["head-1", "head-2"]]);
  });

  it("goes on behind a record that is damaged", async () => {
    const damaged = new HoldfastError({ kind: "data_loss", reason: "RECORD_DAMAGED", message: "torn" });
    const { clock, watched, learned } = following([[event("p", "1", {}, "plugin"), event("default/a", "2", {})]], {
      learnOfPlugin: () => Promise.reject(damaged),
    });
    for (let n = 0; n < 3; n += 1) await clock.advance(1_000);
    expect([watched, learned]).toEqual([["head-1"], ["default/a@?"]]);
  });

  it("wakes who waits for a node behind the reading of its record", async () => {
    const reading = Promise.withResolvers<void>();
    const { clock, changes } = following([[event("n1", "1", {}, "node")]], { learnOfNode: () => reading.promise });
    let woken = false;
    const wait = changes.wait([nodeChangeKey("n1")], changes.version(), never).then(() => {
      woken = true;
    });
    await clock.advance(1_000);
    expect(woken).toBe(false);
    reading.resolve();
    await wait;
  });

  it("[W39] pauses after each failure, however often in a row the store is away", async () => {
    let tries = 0;
    const store = {
      head: async () => {
        tries += 1;
        throw away;
      },
    } as unknown as Store;
    const { clock } = following([], { store });
    await clock.advance(0);
    const before = tries;
    for (let n = 0; n < 10; n += 1) await clock.advance(1_000);
    expect(tries - before).toBeGreaterThanOrEqual(5);
    expect(tries - before).toBeLessThanOrEqual(10);
  });
});
