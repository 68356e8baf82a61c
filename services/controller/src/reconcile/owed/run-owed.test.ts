/** The engine over one record in memory: what it stores before a call, which call leaves, and what it stores of the answer. */

import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { overtaken } from "../../domain/bar.ts";
import type { Moment } from "../../domain/moment.ts";
import { type Attempts, noAttempts, type Outcome } from "../../domain/outcome.ts";
import { createCallOrders } from "../../records/call-orders.ts";
import type { Owed, OwedCall, Owing } from "./owed-call.ts";
import { runOwed, takeTurn, withoutCall } from "./run-owed.ts";

interface Thing extends Owing {
  readonly attempts: Attempts;
  readonly told: readonly string[];
}

const issuer = "c1/1";
const via = "the plugin's socket";
const intent = { op: "make", opId: "op 1", issuer, via };
const retry = { baseMs: 1, capMs: 1 };
const refused: Outcome<never> = {
  kind: "refused",
  failure: { reason: "NO", message: "no", advice: "fail", call: "ended" },
};

const away: Outcome<never> = {
  kind: "unknown",
  failure: { reason: "PLUGIN_NOT_READY", message: "it is not here", advice: "again", call: "not-sent" },
};

let thing: Thing;
let stores: number;
let looks: number[];
let unstored: Map<string, string>;
let driven: boolean;
let taking: AbortController;
/** Of the gate that holds the plugin's socket. */
let gate: string | undefined;
let crowdedOnce: boolean;
let bars: boolean;
let stillWanted: boolean | undefined;
const orders = createCallOrders(issuer);
/** Commits are counted, and each has its place. */
const put = (next: Thing): void => {
  thing = next;
  stores += 1;
  orders.note("thing", next.intent, { gen: 1, sequence: stores });
};

const owed = (): Owed<Thing, Thing> => ({
  records: {
    orders,
    keyOf: () => "thing",
    known: async () => thing,
    read: async () => thing,
    async change(_thing, decide) {
      const at: Moment = { now: 1000, issuer, opId: `op ${stores + 2}`, random: 0, retry };
      const next = decide(thing, at);
      if (crowdedOnce) {
        crowdedOnce = false;
        return { changed: false, crowded: true };
      }
      if (next === thing) return { changed: false, record: thing };
      put(next);
      return { changed: true, record: next };
    },
    keep: (record) => record,
    overtaken,
    lifted: (record) => record,
    waits: (record, { reason }) => ({ ...record, told: [...record.told, `waits: ${reason}`] }),
    doubted: (record, { now }) =>
      record.intent === undefined
        ? record
        : { ...record, told: [...record.told, "doubted"], intent: { uncertainSince: now, ...record.intent } },
  },
  seek: async () => ({ via }),
  rights: {
    issuer,
    isFormerLife: (other) => other === "c1/0",
    isAway: (other) => other !== issuer,
    drives: () => driven,
    instance: (target) => ({ via: target.via ?? via, ...(gate === undefined ? {} : { gate }) }),
    bars: () => bars,
  },
  slots: {
    run: (_request, _signal, fn) => fn(),
    async runIfWanted(_request, wanted, _signal, fn) {
      stillWanted = await wanted();
      return await fn();
    },
  },
  clock: { now: () => 1000, timer: () => () => undefined },
  failpoint: () => undefined,
  unstored,
  wakeLater: (ms) => void looks.push(ms),
  log: createMemoryLogger(),
  taking: taking.signal,
  signal: new AbortController().signal,
});

/** A call that answers so, and is asked last whether it may leave. */
const call = (
  answer: Outcome<string>,
  meanwhile = (): void => undefined,
): OwedCall<Thing, Thing, string> & { left: number } => {
  const made: OwedCall<Thing, Thing, string> & { left: number } = {
    left: 0,
    point: "create",
    request: { kind: "make" },
    attemptsOf: ({ attempts }) => attempts,
    stillRight: (now) => now.intent?.op === "make",
    async call(_now, { wanted }) {
      if ((await wanted?.(via)) === undefined) return refused;
      made.left += 1;
      meanwhile();
      return answer;
    },
    answered: (record, outcome) => ({
      ...record,
      told: [...record.told, record.intent?.uncertainSince === undefined ? outcome.kind : `${outcome.kind} in doubt`],
    }),
    crowded: async (value) => (record) => ({ ...record, told: [...record.told, `${value} is another's`] }),
  };
  return made;
};

beforeEach(() => {
  stores = 0;
  looks = [];
  unstored = new Map();
  driven = true;
  taking = new AbortController();
  gate = undefined;
  crowdedOnce = false;
  bars = true;
  put({ uid: "u1", plugin: "p", updatedAt: 0, intent, bars: [], attempts: noAttempts, told: [] });
});

const run = (c: OwedCall<Thing, Thing, string>) => runOwed(owed(), thing, undefined, c);
const done: Outcome<string> = { kind: "done", value: "it" };

describe("an owed call", () => {
  it("leaves under its intent, and its answer is stored", async () => {
    const c = call(done);
    expect(await run(c)).toBe(true);
    expect({ left: c.left, told: thing.told, unstored: unstored.size }).toEqual({
      left: 1,
      told: ["done"],
      unstored: 0,
    });
  });

  it("[U2] gets the instance of its intent before it leaves", async () => {
    const { via: _v, ...without } = intent;
    put({ ...thing, intent: without });
    const vias: (string | undefined)[] = [];
    await run(call(done, () => vias.push(thing.intent?.via)));
    expect(vias).toEqual([via]);
  });

  it("[U2] is stored anew when its place among the commits is not known", async () => {
    orders.forget("thing");
    const c = call(done);
    expect(await run(c)).toBe(true);
    expect({ left: c.left, told: thing.told }).toEqual({ left: 1, told: ["done"] });
    expect(orders.of("thing", "op 1")).toBeUndefined();
  });

  it("[U2] is stored anew for the life of its gate that is there now", async () => {
    gate = "life 2";
    const gates: (string | undefined)[] = [];
    expect(await run(call(done, () => gates.push(thing.intent?.gate)))).toBe(true);
    expect(gates).toEqual(["life 2"]);
    expect(thing.told).toEqual(["done"]);
  });

  it("[U2] whose record is under another intent by now does not leave", async () => {
    const planned = thing;
    put({ ...thing, intent: { ...intent, opId: "another" } });
    const c = call(done);
    expect(await runOwed(owed(), planned, undefined, c)).toBe(false);
    expect(c.left).toBe(0);
  });

  it("[U4] tells nothing of the call that another controller was given meanwhile", async () => {
    const theirs = { ...intent, opId: "theirs", issuer: "c2/1", via: "beside c2" };
    // This controller has no such instance: nothing can be sent.
    const c = { ...call(done), call: async () => away };
    const engine = owed();
    const known = async (): Promise<Thing> => {
      put({ ...thing, intent: theirs });
      return thing;
    };
    const racing = { ...engine, records: { ...engine.records, known } };
    expect(await runOwed(racing, thing, undefined, c)).toBe(false);
    expect({ intent: thing.intent, told: thing.told }).toEqual({ intent: theirs, told: [] });
  });

  it("[U1] does not leave for a record that has its name and is another", async () => {
    const c = call(done);
    const right = vi.spyOn(c, "stillRight");
    right.mockImplementationOnce(() => {
      put({ ...thing, uid: "u2" });
      return true;
    });
    expect(await run(c)).toBe(false);
    expect({ left: c.left, looks }).toEqual({ left: 0, looks: [0] });
  });

  it("[W2] that is answered under another intent stores nothing", async () => {
    const c = call(done, () => put({ ...thing, intent: { ...intent, opId: "another" } }));
    expect(await run(c)).toBe(false);
    expect({ left: c.left, told: thing.told }).toEqual({ left: 1, told: [] });
  });

  it("[W3] [I5] is in doubt after an attempt whose answer was not stored", async () => {
    unstored.set("thing", "op 1");
    await run(call(refused));
    expect(thing.told).toEqual(["doubted", "refused in doubt"]);
  });

  it("is not made again for an answer that belongs to another record", async () => {
    crowdedOnce = true;
    const c = call(done);
    expect(await run(c)).toBe(true);
    expect({ left: c.left, told: thing.told }).toEqual({ left: 1, told: ["it is another's"] });
  });

  it("leaves the queue with its subject when it is not right any more", async () => {
    const c = { ...call(done), request: { kind: "make", subject: "thing" } as const };
    put({ ...thing, intent: { ...intent, op: "undo" } });
    expect(await run(c)).toBe(false);
    expect({ stillWanted, left: c.left, told: thing.told }).toEqual({ stillWanted: false, left: 0, told: [] });
  });
});

describe("the turn of a call", () => {
  const turn = () => takeTurn(owed(), thing, undefined);
  const others = { ...intent, issuer: "c2/1" };
  const kinds = {
    take: { op: "make", opId: "op 1", issuer: "c2/1" },
    inherit: { ...intent, issuer: "c1/0" },
    overtake: others,
  };

  it.each(["take", "inherit"] as const)(
    "[W1] %s: the intent is this life's, and in doubt, before the step runs",
    async (kind) => {
      put({ ...thing, intent: kinds[kind] });
      expect(await turn()).toBe(thing);
      expect(thing.intent).toMatchObject({ issuer, via, uncertainSince: 1000 });
      expect(thing.told).toEqual(["doubted"]);
    },
  );

  it.each(["take", "inherit", "overtake"] as const)("[W2] %s: stores nothing over another intent", async (kind) => {
    const planned = { ...thing, intent: kinds[kind], updatedAt: -60_000 };
    put({ ...thing, intent: { ...others, opId: "another" } });
    const before = thing;
    expect(await takeTurn(owed(), planned, undefined)).toBe(false);
    expect(thing).toBe(before);
  });

  it("[W1] wait: nothing is stored, and the record is looked at again", async () => {
    put({ ...thing, intent: others, updatedAt: 1000 });
    driven = false;
    const before = thing;
    expect(await turn()).toBe(false);
    expect({ same: thing === before, looks }).toEqual({ same: true, looks: [2000] });
  });

  it("[W1] overtake: the intent is this life's, and in doubt, and the call before has its bar, before the step runs", async () => {
    put({ ...thing, intent: others, updatedAt: -60_000 });
    expect(await turn()).toBe(thing);
    expect(thing.intent).toMatchObject({ issuer, via, uncertainSince: 1000 });
    expect(thing.bars).toMatchObject([{ op: "make", opId: "op 1", issuer: "c2/1", via }]);
  });

  it("[W1] blocked, where the store has no bars: the record says why", async () => {
    bars = false;
    put({ ...thing, intent: others, updatedAt: -60_000 });
    expect(await turn()).toBe(true);
    expect(thing.told).toEqual(["waits: CALL_MAY_BE_OPEN"]);
  });

  it("run: the step has the record as it is", async () => {
    expect(await turn()).toBe(thing);
  });
});

describe("a decision that needs no call", () => {
  const decide = (record: Thing): Thing => ({
    ...record,
    told: [...record.told, record.intent?.via === undefined ? "free" : "may be open"],
  });

  it("frees the intent of a call that never left", async () => {
    expect(await withoutCall(owed(), thing, undefined, decide)).toBe(true);
    expect(thing.told).toEqual(["free"]);
  });

  it("keeps the intent of a call that left and has no stored answer", async () => {
    unstored.set("thing", "op 1");
    await withoutCall(owed(), thing, undefined, decide);
    expect(thing.told).toEqual(["may be open"]);
  });

  it("[W2] stores nothing over another intent", async () => {
    const planned = thing;
    put({ ...thing, intent: { ...intent, opId: "another" } });
    expect(await withoutCall(owed(), planned, undefined, decide)).toBe(false);
  });
});
