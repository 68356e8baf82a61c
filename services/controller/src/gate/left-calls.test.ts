import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { beforeEach, describe, expect, it } from "vitest";
import { createLeftCalls, type LeftCalls } from "./left-calls.ts";
import { memoryCallLog } from "./testing/memory-call-log.ts";

let kept: Map<number, string>;
/** Calls that the store accounts for. */
let known: ReadonlySet<string>;
/** Of the store, as it is in this moment. */
let vetting: { readonly gen: number; readonly uid: string };
let vettedRunId: string;

beforeEach(() => {
  kept = new Map();
  known = new Set();
  vetting = { gen: 1, uid: "v1" };
  vettedRunId = "run";
});

const life = (n: number, isFormerLife = (issuer: string) => Number(issuer.split("/")[1]) < n): LeftCalls => {
  const identity = { clusterUid: "", format: 1, begun: true, runId: "run", lastVetted: "", keptAll: true };
  const store = { identity: async () => ({ ...identity, vetting, vettedRunId }) };
  const made = { calls: memoryCallLog(kept), issuer: `c/${n}`, isFormerLife, vettingUid: () => vetting.uid };
  return createLeftCalls({ ...made, store, log: createMemoryLogger() });
};

const detach = "ControllerUnpublishVolume for volume v at n";
const attach = "ControllerPublishVolume for volume v at n";
const note = (calls: LeftCalls, opId: string, words = detach): void =>
  calls.notesOf("p").note({ subject: "volume v", opId, words });
const look = (calls: LeftCalls): Promise<void> => calls.look(vetting, async () => known);
const barred = (calls: LeftCalls) => calls.words(vetting).flatMap(({ issuer, plugins }) => [issuer, ...plugins]);
const rollBack = (): void => {
  vetting = { gen: vetting.gen + 1, uid: `v${vetting.gen + 1}` };
};

describe("a call that a life before left", () => {
  it("[LC1] bars nothing while the store accounts for it", async () => {
    note(life(1), "op");
    known = new Set(["op"]);
    rollBack();
    const next = life(2);
    await look(next);
    expect(barred(next)).toEqual([]);
    expect(next.some()).toBe(true);
  });

  it("[LC2] has ended when the store accounted for it under this vetting and does not any more", async () => {
    note(life(1), "op");
    rollBack();
    known = new Set(["op"]);
    await look(life(2));
    known = new Set();
    const third = life(3);
    await look(third);
    expect(third.some()).toBe(false);
    expect(kept.size).toBe(0);
  });

  it("[LC2] is not taken for ended by a store that is another one by the end of the look", async () => {
    note(life(1), "op");
    const next = life(2);
    vettedRunId = "";
    await look(next);
    expect(barred(next)).toEqual(["c/1", "p"]);
  });

  it("[LC3] is lost when the store knows nothing of it under another vetting, for this life and the next", async () => {
    note(life(1), "op");
    rollBack();
    const next = life(2);
    await look(next);
    expect(next.words(vetting)).toEqual([
      { issuer: "c/1", plugins: ["p"], told: "v2", promised: "", lost: true, missing: [] },
    ]);
    expect(next.findings()).toMatchObject([{ kind: "CALL", message: expect.stringContaining(detach) }]);
    const third = life(3);
    await look(third);
    expect(barred(third)).toEqual(["c/1", "p"]);
  });

  it("[LC3] has ended when the plugin has answered the same detach to this life, and no other", async () => {
    note(life(1), "op");
    rollBack();
    const next = life(2);
    await look(next);
    next.notesOf("p").detached(attach);
    next.notesOf("q").detached(detach);
    expect(barred(next)).toEqual(["c/1", "p"]);
    next.notesOf("p").detached(detach);
    expect(barred(next)).toEqual([]);
    expect(kept.size).toBe(0);
  });

  it("[LC3] has ended when a person takes it, or the life that left it, for gone", async () => {
    note(life(1), "op");
    note(life(2), "other", attach);
    rollBack();
    const next = life(3);
    await look(next);
    next.giveUp("c/2");
    expect(barred(next)).toEqual(["c/1", "p"]);
    next.giveUp();
    expect(kept.size).toBe(0);
  });

  it("[LC3] is not given up with others while the store accounts for it", async () => {
    note(life(1), "op");
    known = new Set(["op"]);
    const next = life(2);
    await look(next);
    next.giveUp();
    expect(next.some()).toBe(true);
  });

  it("[LC4] by a life that is not proved to be over, is none of this one", async () => {
    note(life(1), "op");
    rollBack();
    const elsewhere = life(2, () => false);
    await look(elsewhere);
    expect(elsewhere.some()).toBe(false);
  });
});

it("[K2] a call that is over is left to nobody; one that another order joined has that order", async () => {
  const first = life(1);
  note(first, "op");
  note(first, "op-2");
  known = new Set(["op-2"]);
  const next = life(2);
  await look(next);
  expect(barred(next)).toEqual([]);
  first.notesOf("q").strike("volume v");
  expect(kept.size).toBe(1);
  const notes = first.notesOf("p");
  notes.note({ subject: "volume w", opId: "op-3", words: detach });
  notes.strike("volume w");
  expect(kept.size).toBe(1);
});
