import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { attachmentRecord, claimRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import type { Intent, VolumeRecord } from "../../domain/volume/volume.ts";
import type { CommitEnd } from "../../records/commit-rounds.ts";
import { createEarlySteps } from "./early-steps.ts";

interface Case {
  readonly before?: Partial<VolumeRecord>;
  readonly intent?: Intent;
  readonly claim?: "ATTACHING" | "QUEUED";
  readonly open?: boolean;
  /** The gate shuts before the commit has left. */
  readonly shuts?: boolean;
  /** The commit is answered before it has left. */
  readonly answered?: boolean;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const unplaced = { op: "attach", node: "n1", opId: "o1", issuer: "a/1", at: 1, epoch: { gen: 1, ctr: 1 } } as const;
const attach = { ...unplaced, via: "beside" } as const;

const begunBy = async (it: Case): Promise<readonly string[]> => {
  const begun: string[] = [];
  const left = Promise.withResolvers<void>();
  let open = it.open ?? true;
  const early = createEarlySteps({
    issuer: "a/1",
    gate: { state: () => ({ open, vetting: { gen: 1, uid: "v1" }, reason: "" }) },
    clock: { now: () => 10 },
    sent: () => left.promise,
    begin: (_volume, step) => void begun.push(step.do),
  });
  const made = volumeRecord([claimRecord("k1", { state: it.claim ?? "ATTACHING" })], [attachmentRecord("n1")]);
  const over = Promise.withResolvers<CommitEnd>();
  early.storing({ ...made, ...it.before }, { ...made, intent: it.intent ?? attach }, over.promise);
  if (it.answered) over.resolve("known");
  if (it.shuts) open = false;
  await turn();
  left.resolve();
  await turn();
  return begun;
};

describe("a new intent that is being stored", () => {
  it("its step begins", async () => {
    expect(await begunBy({})).toEqual(["attach"]);
  });

  it.each<[string, Case]>([
    ["is another life's", { intent: { ...attach, issuer: "a/2" } }],
    ["is given to no instance", { intent: unplaced }],
    ["stood there before", { before: { intent: attach } }],
    ["cannot be called for, as the store is not vetted", { open: false }],
    ["cannot be called for any more", { shuts: true }],
  ])("[ES2] no step begins for one that %s", async (_, it) => {
    expect(await begunBy(it)).toEqual([]);
  });

  it("[ES3] no step begins behind the answer of its commit", async () => {
    expect(await begunBy({ answered: true })).toEqual([]);
  });

  it("no step begins that the record does not owe", async () => {
    expect(await begunBy({ claim: "QUEUED" })).toEqual([]);
  });
});

describe("a controller whose store takes its time", () => {
  let world: World;
  const minute = 60_000;
  const publishes = () => world.backend.calls.filter((call) => call.startsWith("publish "));
  const turns = async (): Promise<void> => {
    for (let n = 0; n < 20; n += 1) await turn();
  };
  /** Commits wait: for their turn at the store, and then for their answer. */
  const slowly = () => {
    const { commit } = world.store;
    const apply = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    world.store.commit = async (wanted) => {
      await apply.promise;
      const result = await commit(wanted);
      await answer.promise;
      return result;
    };
    return { apply: apply.resolve, answer: answer.resolve };
  };

  beforeEach(async () => {
    world = await createWorld();
    await world.makeVolume("data");
    await world.idle();
  });
  afterEach(async () => {
    expect(world.violations()).toEqual([]);
    await world.close();
  });

  it("the step of the intent begins meanwhile", async () => {
    const { facts } = world.backend;
    let looks = 0;
    world.backend.facts = (plugin) => {
      looks += 1;
      return facts(plugin);
    };
    const slow = slowly();
    const claimed = world.claim("web", "n1", ["data"]);
    await turns();
    // That of the claim, and that of the step.
    expect(looks).toBe(2);
    slow.apply();
    slow.answer();
    await claimed;
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("[ES1] [I4] the call leaves behind the answer of the commit of its intent, without another commit", async () => {
    const slow = slowly();
    const before = world.store.commits();
    const claimed = world.claim("web", "n1", ["data"]);
    await turns();
    expect(publishes()).toEqual([]);
    slow.apply();
    await turns();
    expect(publishes()).toEqual([]);
    slow.answer();
    await claimed;
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(publishes()).toHaveLength(1);
    expect(world.store.commits() - before).toBe(3);
  });

  it("[ES1] [I4] no call leaves for an intent that could not be stored", async () => {
    const { commit } = world.store;
    const refused = Promise.withResolvers<never>();
    world.store.commit = () => refused.promise;
    const claimed = world.claim("web", "n1", ["data"]);
    await turns();
    refused.reject(new HoldfastError({ kind: "unavailable", reason: "STORE_UNAVAILABLE", message: "away" }));
    await expect(claimed).rejects.toMatchObject({ reason: "STORE_UNAVAILABLE" });
    world.store.commit = commit;
    await world.pass(minute);
    expect(publishes()).toEqual([]);
    expect((await world.volume("data")).intent).toBeUndefined();
  });

  it("[ES1] [U1] of an intent whose commit is lost and made anew, the call leaves for the one that is stored", async () => {
    const slow = slowly();
    world.store.loseCommits("before");
    const claimed = world.claim("web", "n1", ["data"]);
    await turns();
    slow.apply();
    slow.answer();
    await claimed;
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(publishes()).toHaveLength(1);
  });

  const lost = () =>
    new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "the answer was lost" });

  it("[ES4] a commit that is made over and over keeps no slot from the call of another volume", async () => {
    await world.makeVolume("other");
    await world.idle();
    const { commit } = world.store;
    let again = true;
    world.store.commit = async (wanted) => {
      if (!again || !wanted.writes.some(({ ref }) => ref.key === "default/data")) return await commit(wanted);
      await turn();
      throw lost();
    };
    const claimed = world.claim("web", "n1", ["data"]);
    claimed.catch(() => undefined);
    await turns();
    await world.claim("db", "n1", ["other"]);
    await turns();
    expect(publishes()).toHaveLength(1);
    again = false;
    await world.pass(minute);
    await claimed;
    expect(await world.states("web")).toEqual(["ACTIVE"]);
  });

  it("[ES4] an intent that is stored, and whose answer is lost, is found and called for", async () => {
    world.store.loseCommits("after");
    await world.claim("web", "n1", ["data"]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(publishes()).toHaveLength(1);
  });

  it("[ES4] no call leaves once this controller takes up nothing any more", async () => {
    const taking = new AbortController();
    await world.close();
    world = await createWorld({ taking: taking.signal });
    await world.makeVolume("data");
    await world.idle();
    const slow = slowly();
    const claimed = world.claim("web", "n1", ["data"]);
    await turns();
    taking.abort(new DOMException("stopping", "AbortError"));
    const ended = world.reconciler.end();
    slow.apply();
    slow.answer();
    await claimed;
    await ended;
    expect(publishes()).toEqual([]);
    expect((await world.volume("data")).intent).not.toHaveProperty("via");
  });
});
