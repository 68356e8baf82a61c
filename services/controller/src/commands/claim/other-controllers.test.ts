/** What another controller did is found, although this one looks no further than its memory on the usual path. */
import { randomUUID } from "node:crypto";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  caller,
  capability,
  claimsInput,
  createWorld,
  volumeInput,
  type World,
} from "../../../../../test/support/controller/world.ts";
import type { Store } from "../../ports.ts";
import { createChanges } from "../../records/changes.ts";
import { createControllerGates, gatesRef } from "../../records/controller-gates.ts";
import { createCutRecords } from "../../records/snapshot-records.ts";
import type { GrantTerms } from "../../records/volume/change-options.ts";
import { createVolumeRecords } from "../../records/volume/volume-records.ts";
import { createCommands } from "../commands.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
  for (const id of ["a", "b"]) await world.makeVolume(id, { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] });
});

afterEach(() => world.close());

/** Another controller over the same store; nobody tells the first one what it does. */
const other = (store: Store = world.store, grants?: GrantTerms) => {
  const { clock, nodes, gate, backend } = world;
  const ids = { uuid: () => randomUUID(), random: () => 0.5 };
  const signal = new AbortController().signal;
  const { attachLimit, log, secrets } = world;
  const deps = { store, clock, ids, issuer: "c2/1", changes: createChanges(), signal };
  const records = createVolumeRecords({ ...deps, attachLimit, log, grants });
  const cuts = createCutRecords(deps);
  return createCommands({ records, cuts, nodes, plugins: backend, gate, secrets, feed: store, clock, ids });
};

const aliased = (volume: string, alias: string) => ({
  claims: [{ volume, alias, capability: undefined, readOnly: false }],
});
const living = async (volume: string) =>
  Object.values((await world.volume(volume)).claims).map(({ workload, alias, goal }) => `${workload}/${alias} ${goal}`);

describe("CreateClaims", () => {
  it("asks the store for nothing when the workload has no other claims", async () => {
    const list = vi.spyOn(world.store, "list");
    await world.claim("web", "n1", ["a", "b"]);
    expect(list).not.toHaveBeenCalled();
    expect(await living("a")).toEqual(["web/a active"]);
    expect(await living("b")).toEqual(["web/b active"]);
  });

  it("refuses an alias that another controller gave to another volume, and writes nothing", async () => {
    await other().createClaims(claimsInput("web", "n1", [], aliased("b", "data")), caller);
    const before = await living("b");
    await expect(world.claim("web", "n1", [], aliased("a", "data"))).rejects.toMatchObject({
      reason: "CLAIM_EXISTS",
      metadata: { volume: "b" },
    });
    expect(await living("a")).toEqual([]);
    expect(await living("b")).toEqual(before);
  });

  it("refuses it also when the other volume is remembered from before", async () => {
    await world.claim("web", "n1", [], aliased("b", "first"));
    await other().createClaims(claimsInput("web", "n1", [], aliased("b", "data")), caller);
    await expect(world.claim("web", "n1", [], aliased("a", "data"))).rejects.toMatchObject({ reason: "CLAIM_EXISTS" });
    await world.claim("web", "n1", [], aliased("a", "second"));
    expect(await living("a")).toEqual(["web/second active"]);
  });
});

describe("the words that a grant was judged by", () => {
  const { signal } = new AbortController();
  const ids = { uuid: randomUUID, random: () => 0.5 };
  const gates = () => createControllerGates({ store: world.store, clock: world.clock, ids, signal });
  const word = { issuer: "c2/1", plugins: [], told: "v", promised: "v", lost: false, missing: [] };

  /** Others take the word of `c2/1` out; `look` is what its gate does when a commit has found that. */
  const forgotten = async (look: () => Promise<void>) => {
    let { rev } = await gates().tell([word], () => false);
    await gates().remove(() => true);
    let looks = 0;
    const changed = async (): Promise<void> => {
      looks += 1;
      await look();
      ({ rev } = await gates().read());
    };
    const judgedBy = () => [{ ref: gatesRef, expectedRev: rev }];
    const controller = other(world.store, { judgedBy, changed });
    return { controller, looks: () => looks };
  };

  it("[CW5] have changed: it is decided anew under those that stand", async () => {
    const { controller, looks } = await forgotten(async () => undefined);
    const [made] = await controller.createClaims(claimsInput("web", "n1", ["a"]), caller);
    expect(made).toMatchObject({ kind: "living", claim: { goal: "active" } });
    expect(looks()).toBe(1);
  });

  it("[CW5] have changed, and bar it: nothing is granted", async () => {
    const { controller } = await forgotten(async () => world.gate.set(false));
    const granted = controller.createClaims(claimsInput("web", "n1", ["a"]), caller);
    await expect(granted).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    expect(await living("a")).toEqual([]);
  });

  it("[CW5] are nothing to a release", async () => {
    await world.claim("web", "n1", ["a"]);
    const { controller, looks } = await forgotten(async () => undefined);
    await controller.releaseClaims({ namespace: "default", workload: "web", aliases: [], claimUids: [] }, caller);
    expect(looks()).toBe(0);
    expect(await living("a")).toEqual(["web/a released"]);
  });
});

/** The first commit is stored, what `meanwhile` does follows, and then its answer is lost. */
const losing = (meanwhile: () => Promise<void>) => {
  const { store } = world;
  const commits = { count: 0 };
  const late: Store = {
    ...store,
    async commit(commit) {
      const result = await store.commit(commit);
      commits.count += 1;
      if (commits.count > 1) return result;
      await meanwhile();
      throw new HoldfastError({ kind: "unavailable", reason: "STORE_OUTCOME_UNKNOWN", message: "lost" });
    },
  };
  return { controller: other(late), commits };
};

describe("what is stored by a commit whose answer is lost, and over before the next look, lives no second time", () => {
  it("CreateClaims says that the claim is over", async () => {
    const { controller, commits } = losing(async () => {
      await world.release("web");
      await world.pass(5_000);
      expect(await living("a")).toEqual([]);
    });
    const [made] = await controller.createClaims(claimsInput("web", "n1", ["a"]), caller);
    expect(made).toMatchObject({ kind: "over", claim: { workload: "web", state: "RELEASED" } });
    expect(commits.count).toBe(1);
    expect(await living("a")).toEqual([]);
  });

  it("CreateClaims says that the claim is to be released, and leaves it its uid", async () => {
    const { controller } = losing(async () => {
      await world.pass(5_000);
      await world.release("web");
    });
    const [made] = await controller.createClaims(claimsInput("web", "n1", ["a"]), caller);
    expect(made).toMatchObject({ kind: "living", claim: { goal: "released" } });
    expect(await living("a")).toEqual(["web/a released"]);
    await world.pass(60_000);
    expect(await living("a")).toEqual([]);
  });

  it("CreateVolume says that the volume is gone", async () => {
    const { controller, commits } = losing(async () => {
      await world.commands.deleteVolume({ namespace: "default", id: "c", uid: "", requestId: "" }, caller);
      await world.pass(5_000);
    });
    const creates = () => world.backend.calls.filter((call) => call.startsWith("create ")).length;
    const before = creates();
    await expect(controller.createVolume(volumeInput("c"), caller)).rejects.toMatchObject({
      reason: "VOLUME_NOT_FOUND",
    });
    await world.pass(60_000);
    expect(commits.count).toBe(1);
    expect(creates() - before).toBeLessThanOrEqual(1);
    await expect(world.volume("c")).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    expect(world.backend.volumes()).toHaveLength(2);
  });
});

describe("ReleaseClaims", () => {
  it("asks the store for nothing when it knows all claims of the workload", async () => {
    await world.claim("web", "n1", ["a", "b"]);
    await world.idle();
    const list = vi.spyOn(world.store, "list");
    expect(await world.release("web")).toHaveLength(2);
    expect(list).not.toHaveBeenCalled();
  });

  it("releases what another controller added, on the same volume and on another", async () => {
    await world.claim("web", "n1", ["a"]);
    const foreign = other();
    await foreign.createClaims(claimsInput("web", "n1", [], aliased("a", "more")), caller);
    await foreign.createClaims(claimsInput("web", "n1", ["b"]), caller);
    await world.pass(1_000);
    const views = await world.release("web");
    expect(views.map(({ claim }) => claim.alias).toSorted()).toEqual(["a", "b", "more"]);
    await world.pass(5_000);
    for (const volume of ["a", "b"]) expect(await living(volume)).toEqual([]);
    expect(world.agents.mounts()).toEqual([]);
  });

  it("of a workload that only another controller knows releases everything", async () => {
    await other().createClaims(claimsInput("web", "n1", ["a", "b"]), caller);
    expect(await world.release("web")).toHaveLength(2);
    for (const volume of ["a", "b"]) expect(await living(volume)).not.toContain(`web/${volume} active`);
  });

  it("of one alias leaves the others alone, and is the same twice", async () => {
    await world.claim("web", "n1", ["a", "b"]);
    await world.idle();
    const release = () =>
      world.commands.releaseClaims({ namespace: "default", workload: "web", aliases: ["a"], claimUids: [] }, caller);
    expect((await release()).map(({ claim }) => claim.alias)).toEqual(["a"]);
    expect((await release()).map(({ claim }) => claim.alias)).toEqual(["a"]);
    await world.idle();
    expect(await living("a")).toEqual([]);
    expect(await living("b")).toEqual(["web/b active"]);
  });
});
