import { describe, expect, it } from "vitest";
import { createSlotCounts } from "./slot-counts.ts";

const setup = () => {
  const asked: ((count: number) => void)[] = [];
  const counts = createSlotCounts({
    store: {
      count: async ([entry]) => [await new Promise<number>((resolve) => asked.push(resolve))].slice(0, entry ? 1 : 0),
    },
    onError: (error) => {
      throw error;
    },
    signal: new AbortController().signal,
    freed: () => undefined,
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const answer = async (count: number): Promise<void> => {
    asked.shift()?.(count);
    await turn();
  };
  return { counts, asked, turn, answer };
};

describe("a number that is read while a commit of ours is on its way", () => {
  it("is read again at its end: the store may have seen the commit first, or not", async () => {
    const { counts, asked, turn, answer } = setup();
    const end = counts.opens(["n1/p"]);
    expect(counts.usedNow("n1/p")).toBeUndefined();
    await turn();
    // The store has the commit already, and its answer is not looked at yet.
    await answer(1);
    expect(counts.used("n1/p")).toBeUndefined();
    expect(asked).toHaveLength(0);
    counts.change("n1/p", 1);
    end();
    await turn();
    await answer(1);
    expect(counts.used("n1/p")).toBe(1);
  });

  it("is read again when the commit ended meanwhile", async () => {
    const { counts, turn, answer } = setup();
    const end = counts.opens(["n1/p"]);
    counts.usedNow("n1/p");
    await turn();
    counts.change("n1/p", 1);
    end();
    await answer(0);
    await answer(1);
    expect(counts.used("n1/p")).toBe(1);
  });
});
