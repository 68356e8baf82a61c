import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { createCallTurns } from "./call-turns.ts";

const make = (perTurn = 2) => {
  const told = { dropped: 0 };
  const turns = createCallTurns({
    perTurn,
    onDropped: () => {
      told.dropped += 1;
    },
  });
  const begun: string[] = [];
  const call = (name: string, caller = new AbortController()) => {
    turns.next(caller.signal).then(
      () => begun.push(name),
      (reason: Error) => begun.push(`${name}: ${reason.message}`),
    );
    return caller;
  };
  return { told, begun, call };
};

const turnsPass = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i += 1) await turn();
};

describe("the turn of a call", () => {
  test("comes when one whole turn of the event loop is over, and with it for a call before which nothing waits", async () => {
    const { begun, call } = make();
    call("alone");
    call("behind");
    await turnsPass(1);
    expect(begun).toEqual(["alone"]);
    await turnsPass(1);
    expect(begun).toEqual(["alone", "behind"]);
  });

  test("does not come for a call whose caller is gone by then, and takes no place of others", async () => {
    const { told, begun, call } = make(1);
    call("first");
    const gone = ["a", "b", "c"].map((name) => call(name));
    call("d");
    await turnsPass(1);
    for (const caller of gone) caller.abort(new Error("gone"));
    await turnsPass(2);
    expect(begun).toEqual(["first", "a: gone", "b: gone", "c: gone", "d"]);
    expect(told.dropped).toBe(3);
  });

  test("comes in the order of arrival, for a bounded number at once", async () => {
    const { begun, call } = make(2);
    const names = Array.from({ length: 3_000 }, (_, i) => String(i));
    for (const name of names) call(name);
    await turnsPass(3);
    expect(begun.length).toBeGreaterThan(0);
    expect(begun.length).toBeLessThan(10);
    await turnsPass(1_600);
    expect(begun).toEqual(names);
    call("later");
    await turnsPass(3);
    expect(begun.at(-1)).toBe("later");
  });
});
