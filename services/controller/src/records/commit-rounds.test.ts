import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { describe, expect, it } from "vitest";
import type { CommitResult } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { changedAllTheTime, createCommitRounds, maxRounds } from "./commit-rounds.ts";

const stored: CommitResult = { ok: true, revs: [1], token: "1", order: { gen: 1, sequence: 1 } };
const nothing = { opId: "1", writes: [], events: [], requiresVetted: false };
const busy = () => changedAllTheTime("record r");

const start = (commit: Store["commit"] = async () => stored) => {
  const stop = new AbortController();
  const pauses: number[] = [];
  const sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    pauses.push(ms);
  };
  const rounds = createCommitRounds({
    store: { commit },
    clock: { sleep },
    ids: { random: () => 1 },
    signal: stop.signal,
  });
  return { rounds, pauses, stop };
};

const failing = (reason: string) => async () => {
  throw new HoldfastError({ kind: "unavailable", reason, message: reason });
};

describe("the commit of a round", () => {
  it("[CR1] settles nothing when its answer was lost", async () => {
    expect(await start(failing("STORE_OUTCOME_UNKNOWN")).rounds.commit(nothing)).toBeUndefined();
  });

  it("rejects when the store is away, and answers what the store answers", async () => {
    await expect(start(failing("STORE_UNAVAILABLE")).rounds.commit(nothing)).rejects.toMatchObject({
      reason: "STORE_UNAVAILABLE",
    });
    expect(await start().rounds.commit(nothing)).toBe(stored);
  });
});

describe("rounds", () => {
  it("end with the first that settles something, also when that is false", async () => {
    const { rounds, pauses } = start();
    const asked: number[] = [];
    const answer = await rounds.run(async (n) => {
      asked.push(n);
      return n === 1 ? false : undefined;
    }, busy);
    expect(answer).toBe(false);
    expect([asked, pauses]).toEqual([[0, 1], []]);
  });

  it("[CR2] [CR3] are bounded, and pause longer each time but before the second", async () => {
    const { rounds, pauses } = start();
    let asked = 0;
    const answer = rounds.run(async () => {
      asked += 1;
      return undefined;
    }, busy);
    await expect(answer).rejects.toMatchObject({ reason: "REVISION_CONFLICT" });
    expect(asked).toBe(maxRounds);
    expect(pauses).toEqual([2, 4, 8, 16, 32, 64, 128, 128, 128, 128]);
  });

  it("[CR2] end with the store's own words while it answers no commit at all", async () => {
    const { rounds } = start(failing("STORE_OUTCOME_UNKNOWN"));
    const answer = rounds.run(() => rounds.commit(nothing), busy);
    await expect(answer).rejects.toMatchObject({ reason: "STORE_OUTCOME_UNKNOWN" });
  });

  it("[CR2] end with the caller's words once the store answers again", async () => {
    let asked = 0;
    const { rounds } = start(async () => {
      asked += 1;
      return asked === 1 ? await failing("STORE_OUTCOME_UNKNOWN")() : { ok: false, conflicts: [] };
    });
    const answer = rounds.run(async () => void (await rounds.commit(nothing)), busy);
    await expect(answer).rejects.toMatchObject({ reason: "REVISION_CONFLICT" });
  });

  it.each([0, 1, 3])("[CR3] end with an abort in round %i", async (last) => {
    const { rounds, stop } = start();
    const why = new Error("over");
    let asked = 0;
    const answer = rounds.run(async (n) => {
      asked += 1;
      if (n === last) stop.abort(why);
      return undefined;
    }, busy);
    await expect(answer).rejects.toBe(why);
    expect(asked).toBe(last + 1);
  });

  it("hand on what a round throws, and make no other", async () => {
    const { rounds } = start();
    let asked = 0;
    const answer = rounds.run(async () => {
      asked += 1;
      throw new Error("refused");
    }, busy);
    await expect(answer).rejects.toThrow("refused");
    expect(asked).toBe(1);
  });
});
