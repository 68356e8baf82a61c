import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createPending, type Keys } from "./pending.ts";

const only = (...exclusive: readonly string[]): Keys => ({ exclusive, shared: [] });
const withOthers = (...shared: readonly string[]): Keys => ({ exclusive: [], shared });

const held = () => {
  let end: (error?: Error) => void = () => undefined;
  const act = () =>
    new Promise<string>((resolve, reject) => {
      end = (error) => (error === undefined ? resolve("done") : reject(error));
    });
  return { act, end: (error?: Error) => end(error) };
};

describe("calls in flight", () => {
  test("a second call on the same volume is ABORTED at once, and told which call and for how long", async () => {
    let now = 1000;
    const pending = createPending({ monotonic: () => now });
    const first = held();
    const running = pending.during("NodeStageVolume", only("volume a"), first.act);
    now = 3500;
    await expect(pending.during("DeleteVolume", only("volume a"), async () => "ran")).rejects.toMatchObject({
      code: "ABORTED",
      message:
        "DeleteVolume: NodeStageVolume has been at work on volume a for 2.5 s and is not through; ask again in a moment",
    });
    expect(await pending.during("DeleteVolume", only("volume b"), async () => "ran")).toBe("ran");
    first.end();
    expect(await running).toBe("done");
    expect(await pending.during("DeleteVolume", only("volume a"), async () => "ran")).toBe("ran");
    expect(pending.held()).toEqual(new Map());
  });

  test("an operation that failed has let go", async () => {
    const pending = createPending({ monotonic: () => 0 });
    const first = held();
    const running = pending.during("A", only("volume a"), first.act);
    first.end(new Error("no"));
    await expect(running).rejects.toThrow("no");
    expect(pending.held()).toEqual(new Map());
  });

  test("the end of all that is at work can be waited for, failures and late comers too", async () => {
    const pending = createPending({ monotonic: () => 0 });
    const [one, two] = [held(), held()];
    const first = pending.during("A", only("a"), one.act).catch(() => "failed");
    let settled = false;
    await pending.during("B", only("b"), async () => undefined);
    const end = pending.settled().then(() => {
      settled = true;
    });
    const second = pending.during("C", withOthers(), two.act);
    one.end(new Error("no"));
    expect(await first).toBe("failed");
    await new Promise(setImmediate);
    expect(settled).toBe(false);
    two.end();
    await Promise.all([second, end]);
    expect(settled).toBe(true);
  });

  test("readers of a snapshot share it, and keep its deletion out", async () => {
    const pending = createPending({ monotonic: () => 0 });
    const [one, two] = [held(), held()];
    const running = [pending.during("A", withOthers("s"), one.act), pending.during("B", withOthers("s"), two.act)];
    expect(pending.held()).toEqual(new Map([["s", ["A", "B"]]]));
    one.end();
    await running[0];
    await expect(pending.during("C", only("s"), async () => 1)).rejects.toMatchObject({ code: "ABORTED" });
    two.end();
    await running[1];
    expect(await pending.during("C", only("s"), async () => 1)).toBe(1);
  });

  test("a call that was refused for one of its keys holds none of them", async () => {
    const pending = createPending({ monotonic: () => 0 });
    const first = held();
    const running = pending.during("A", only("b"), first.act);
    await expect(pending.during("B", { exclusive: ["a", "b"], shared: ["c"] }, async () => 1)).rejects.toMatchObject({
      code: "ABORTED",
    });
    expect(pending.held()).toEqual(new Map([["b", ["A"]]]));
    first.end();
    await running;
  });

  test("a key that a call names twice, or in both ways, is one", async () => {
    const pending = createPending({ monotonic: () => 0 });
    expect(await pending.during("A", { exclusive: ["a", "a"], shared: ["a"] }, async () => "ran")).toBe("ran");
    expect(pending.held()).toEqual(new Map());
  });

  test("whatever comes and goes: never two on a key of which one is exclusive, and nothing is held at the end", async () => {
    const keys = fc.record({
      exclusive: fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 2 }),
      shared: fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 2 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(keys, fc.nat(5)), { maxLength: 30 }), async (calls) => {
        const pending = createPending({ monotonic: () => 0 });
        const running = new Map<Keys, (error?: Error) => void>();
        const all: Promise<unknown>[] = [];
        for (const [wanted, choice] of calls) {
          const mine = held();
          const conflicts = [...running.keys()].some(
            (other) =>
              [...wanted.exclusive].some((key) => other.exclusive.includes(key) || other.shared.includes(key)) ||
              wanted.shared.some((key) => other.exclusive.includes(key)),
          );
          let began = false;
          const call = pending.during("call", wanted, () => {
            began = true;
            return mine.act();
          });
          all.push(call.catch(() => undefined));
          await Promise.resolve();
          expect(began).toBe(!conflicts);
          if (began) running.set(wanted, mine.end);
          if (choice > 3) {
            const [first] = running;
            if (first !== undefined) {
              running.delete(first[0]);
              first[1]();
              await new Promise(setImmediate);
            }
          }
        }
        for (const end of running.values()) end();
        await Promise.all(all);
        expect(pending.held()).toEqual(new Map());
      }),
    );
  });
});
