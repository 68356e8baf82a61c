/** Groups restored as a set, over whole controllers and the simulated storage. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  createSnapshotWorld,
  type SnapshotWorld,
  simPlugin,
} from "../../../../../test/support/controller/snapshot-world.ts";
import { volumeInput } from "../../../../../test/support/controller/world.ts";
import { sample } from "../../../../../test/support/full.ts";
import type { RestoreGroupInput } from "../../commands/snapshot/snapshot-types.ts";

let world: SnapshotWorld;
const minute = 60_000;
const sources = ["a", "b", "c"] as const;

beforeEach(async () => {
  world = await createSnapshotWorld({ storage: { snapshotPolls: 1 } });
  for (const id of sources) await world.makeVolume(id);
  await world.group("g", { "g-a": "a", "g-b": "b", "g-c": "c" });
  await world.pass(minute);
  world.backend.clear();
});

afterEach(async () => {
  expect(world.backend.violations()).toEqual([]);
  await world.close();
});

type Change = Partial<RestoreGroupInput["members"][number]>;

const member = (source: string, change: Change = {}): RestoreGroupInput["members"][number] => {
  const {
    namespace: _n,
    plugin: _p,
    contentSource: _c,
    requestId: _r,
    capacity: _s,
    ...own
  } = volumeInput(`new-${source}`);
  return { ...own, capacity: { required: 0, limit: 0 }, source, ...change };
};

const whole = (changes: Readonly<Record<string, Change>> = {}, group = "g"): RestoreGroupInput => ({
  namespace: "default",
  group,
  members: sources.map((source) => member(source, changes[source])),
  requestId: "",
});

const restore = (input = whole()) => world.snapshots.restoreGroup(input, world.caller);
const stateOf = async (source: string): Promise<string> => {
  const volume = await world.volumeNow(`new-${source}`);
  return volume === undefined ? "gone" : volume.goal === "absent" ? "going" : volume.state;
};
const states = () => Promise.all(sources.map(stateOf));
const nothing = ["gone", "gone", "gone"];
const storages = (): number => world.backend.state().volumes.size;

/** CreateVolume of that one alone is answered so, until `well`. */
const creates = async (source: string, code: "INVALID_ARGUMENT" | "UNAVAILABLE"): Promise<void> => {
  const volume = (await world.volumeNow(`new-${source}`))?.name ?? "";
  world.backend.setFaults([{ method: "CreateVolume", match: { volume }, code, times: "always" }]);
};
const well = (): void => world.backend.setFaults([]);

/** The records of all of them, with nothing called yet. */
const held = async (input = whole()) => {
  const gate = Promise.withResolvers<void>();
  world.transport.hold(gate.promise);
  await restore(input);
  return {
    release: async () => {
      world.transport.hold(undefined);
      gate.resolve();
      await world.idle();
    },
  };
};

describe("a group that is restored", () => {
  it("GR1 makes each volume from the snapshot of its source, in one commit, and holds on to the snapshots until then", async () => {
    const { release } = await held();
    const sets = new Set<string | undefined>();
    expect(await states()).toEqual(["CREATING", "CREATING", "CREATING"]);
    await expect(world.remove("group", "g")).rejects.toMatchObject({ reason: "SNAPSHOT_IN_USE" });
    await release();
    expect(await states()).toEqual(["AVAILABLE", "AVAILABLE", "AVAILABLE"]);
    for (const source of sources) {
      const volume = await world.volumeNow(`new-${source}`);
      const snapshot = await world.now("snapshot", `g-${source}`);
      expect(volume?.source?.externalId).toBe(snapshot?.externalId);
      const stored = world.backend.state().volumes.get(volume?.externalId ?? "");
      expect(stored).toMatchObject({ source: { id: snapshot?.externalId } });
      sets.add(volume?.restore?.uid);
    }
    expect(sets.size).toBe(1);
    const again = await restore();
    expect([again.state, again.gone, again.volumes.map(({ volume }) => volume.id)]).toEqual([
      "READY",
      [],
      ["new-a", "new-b", "new-c"],
    ]);
    expect(world.calls("CreateVolume").length).toBe(3);
    await world.remove("group", "g");
    expect(await world.now("group", "g")).toBeUndefined();
    // What the set was made from is gone, and the same request still answers it.
    expect((await restore()).state).toBe("READY");
  });

  it("GR1 stores nothing of a request that is wrong, and names every violation of it", async () => {
    const wrong = (input: RestoreGroupInput) => expect(restore(input)).rejects;
    await wrong({
      ...whole({ a: { source: "x" }, b: { capacity: { required: 1, limit: 2 } } }),
    }).toMatchObject({
      kind: "invalid",
      violations: [
        { field: "members[0].source" },
        { field: "members" },
        { field: "members[1].capacity.required_bytes" },
        { field: "members[1].capacity.limit_bytes" },
      ],
    });
    await wrong(whole({ a: { capabilities: [], id: "" }, b: { id: "new-c", source: "c" } })).toMatchObject({
      kind: "invalid",
      violations: [
        { field: "members[0].id" },
        { field: "members[0].capabilities" },
        { field: "members[2].source" },
        { field: "members[2].id" },
      ],
    });
    await wrong({ ...whole(), members: [member("a"), member("b")] }).toMatchObject({
      violations: [{ field: "members", description: "lacks volume c of group g" }],
    });
    await wrong(whole({}, "none")).toMatchObject({ reason: "SNAPSHOT_GROUP_NOT_FOUND" });
    await world.group("early", { "e-a": "a" });
    await wrong({ ...whole({}, "early"), members: [member("a")] }).toMatchObject({ reason: "SNAPSHOT_NOT_READY" });
    expect(await states()).toEqual(nothing);
  });

  it("GR1 stores nothing when one of the ids is taken, and says which", async () => {
    await world.makeVolume("new-b");
    await expect(restore()).rejects.toMatchObject({
      reason: "VOLUME_EXISTS",
      metadata: { volume: "new-b", field: "restore" },
    });
    expect(await states()).toEqual(["gone", "AVAILABLE", "gone"]);
  });

  it("GR1 and one of whose ids is taken at the same time stores all or nothing", async () => {
    const both = await Promise.allSettled([
      world.commands.createVolume(volumeInput("new-c", { plugin: simPlugin }), world.caller),
      restore(),
    ]);
    await world.idle();
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    const set = both[1]?.status === "fulfilled";
    expect(await states()).toEqual(set ? ["AVAILABLE", "AVAILABLE", "AVAILABLE"] : ["gone", "gone", "AVAILABLE"]);
  });

  it("GR1 and the deletion of its group, asked for together: one of the two succeeds", async () => {
    for (const first of ["restore", "delete"]) {
      await world.group("h", { "h-a": "a" });
      await world.pass(minute);
      const input = { ...whole({}, "h"), members: [member("a", { id: "from-h" })] };
      const remove = () =>
        world.snapshots.deleteCut(
          { kind: "group", namespace: "default", id: "h", uid: "", requestId: "", forget: false },
          world.caller,
        );
      const both = first === "restore" ? [restore(input), remove()] : [remove(), restore(input)];
      const settled = await Promise.allSettled(both);
      await world.idle();
      expect(settled.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
      const made = await world.volumeNow("from-h");
      expect([made?.state, (await world.now("group", "h"))?.state]).toEqual(
        made === undefined ? [undefined, undefined] : ["AVAILABLE", "READY"],
      );
      if (made !== undefined) await world.deleteVolume("from-h");
      await world.idle();
      if (made !== undefined) await world.remove("group", "h");
    }
  });

  it("needs a store that no earlier release writes to, and one that is vetted", async () => {
    const format = vi.spyOn(world.store, "format").mockReturnValue(3);
    await expect(restore()).rejects.toMatchObject({ reason: "UPGRADE_UNFINISHED", metadata: { needed: "4" } });
    format.mockRestore();
    world.setGate(false);
    await expect(restore()).rejects.toMatchObject({ reason: "STORE_UNVETTED" });
    expect(await states()).toEqual(nothing);
  });

  it("is another set only when all of one is gone, and nothing while it goes", async () => {
    await restore();
    await world.idle();
    const gate = Promise.withResolvers<void>();
    world.transport.hold(gate.promise);
    for (const source of sources) await world.deleteVolume(`new-${source}`);
    await expect(restore()).rejects.toMatchObject({ reason: "VOLUME_EXISTS", metadata: { field: "state" } });
    world.transport.hold(undefined);
    gate.resolve();
    await world.idle();
    await restore();
    await world.idle();
    await world.deleteVolume("new-b");
    await world.idle();
    expect(await restore()).toMatchObject({ state: "FAILED", gone: ["new-b"], deciding: false });
  });

  it("is refused with another mapping or content under the same ids, and its volumes are not those of another request", async () => {
    await restore();
    await world.idle();
    const other = (input: RestoreGroupInput, field: string) =>
      expect(restore(input)).rejects.toMatchObject({ reason: "VOLUME_EXISTS", metadata: { field } });
    await other(whole({ a: { id: "new-b" }, b: { id: "new-a" } }), "restore");
    await other(whole({}, "another"), "restore");
    await other(whole({ c: { labels: { x: "1" } } }), "labels");
    await expect(
      world.commands.createVolume(
        volumeInput("new-a", {
          plugin: simPlugin,
          contentSource: { kind: "snapshot", id: "g-a" },
          capacity: { required: 0, limit: 0 },
        }),
        world.caller,
      ),
    ).rejects.toMatchObject({ reason: "VOLUME_EXISTS", metadata: { field: "restore" } });
    expect(storages()).toBe(6);
  });

  it.each(["before", "after"] as const)(
    "[I4] GR1 is settled by reading when the answer of its commit is lost, %s it was stored",
    async (when) => {
      world.loseCommits(when);
      await restore();
      await world.idle();
      expect(await states()).toEqual(["AVAILABLE", "AVAILABLE", "AVAILABLE"]);
      expect(storages()).toBe(6);
    },
  );

  it.each(["controller.create.after-commit", "controller.create.after-call"] as const)(
    "[I4] [I5] GR1 goes on when the controller dies at %s: each is made once",
    async (point) => {
      for (const skip of [0, 1, 2]) {
        world.killAt(point, skip);
        await restore();
        await world.idle();
        expect(world.alive).toBe(false);
        await world.restart();
        await world.pass(minute);
        expect(await states()).toEqual(["AVAILABLE", "AVAILABLE", "AVAILABLE"]);
        expect(storages()).toBe(6);
        for (const source of sources) await world.deleteVolume(`new-${source}`);
        await world.idle();
        expect(storages()).toBe(3);
      }
    },
  );
});

describe("a set of which one has failed", () => {
  const fail = async (source: string, input = whole()) => {
    const { release } = await held(input);
    await creates(source, "INVALID_ARGUMENT");
    await release();
    well();
    await world.pass(minute);
  };

  it("GR2 has the others deleted with their storage, whatever their policy, and says so", async () => {
    const { policy } = volumeInput("x");
    await fail("b", whole({ a: { policy: { ...policy, reclaim: "retain" } } }));
    expect(await states()).toEqual(["gone", "FAILED", "gone"]);
    expect(storages()).toBe(3);
    expect((await world.volumeNow("new-b"))?.restore?.end).toBe("undone");
    const input = whole({ a: { policy: { ...policy, reclaim: "retain" } } });
    const view = await restore(input);
    expect([view.state, view.deciding, view.gone, view.volumes.map(({ volume }) => volume.id)]).toEqual([
      "FAILED",
      false,
      ["new-a", "new-c"],
      ["new-b"],
    ]);
    // Its end is that of the failed one's record; then the same request is another set.
    await world.deleteVolume("new-b");
    await world.idle();
    await restore(input);
    await world.idle();
    expect(await states()).toEqual(["AVAILABLE", "AVAILABLE", "AVAILABLE"]);
  });

  it("GR2 GR3 waits with that while something is cut from one of them", async () => {
    const { release } = await held();
    await creates("b", "INVALID_ARGUMENT");
    await release();
    well();
    expect(await states()).toEqual(["gone", "FAILED", "gone"]);
    await world.deleteVolume("new-b");
    await world.idle();
    await restore();
    await world.idle();
    // One of them is being cut when another one is found to have failed.
    await world.snapshot("cut", "new-a");
    expect((await world.now("snapshot", "cut"))?.state).toBe("CUT");
    await world.records.change({ namespace: "default", id: "new-b" }, (volume) => ({
      volume: { ...volume, state: "FAILED" },
      ended: [],
      notes: [],
    }));
    await world.idle();
    expect(await states()).toEqual(["AVAILABLE", "FAILED", "AVAILABLE"]);
    expect((await restore()).deciding).toBe(true);
    await world.pass(2 * minute);
    expect((await world.now("snapshot", "cut"))?.state).toBe("READY");
    expect(await states()).toEqual(["gone", "FAILED", "gone"]);
  });

  it("GR2 is decided by a life that comes after the failure, when this one dies", async () => {
    const { release } = await held();
    await creates("b", "INVALID_ARGUMENT");
    world.setGate(false);
    await release();
    well();
    await world.pass(minute);
    // Not while the store is not vetted: it may have lost a claim.
    expect(await stateOf("b")).toBe("FAILED");
    expect([await stateOf("a"), await stateOf("c")]).not.toContain("going");
    await world.restart();
    await world.pass(minute);
    expect((await world.volumeNow("new-b"))?.restore?.end).toBeUndefined();
    world.setGate(true);
    await world.pass(minute);
    expect(await states()).toEqual(["gone", "FAILED", "gone"]);
    expect(storages()).toBe(3);
  });

  it("GR2 deletes none of them once there was a claim of one", async () => {
    const { release } = await held();
    await creates("b", "UNAVAILABLE");
    await release();
    expect(await states()).toEqual(["AVAILABLE", "CREATING", "AVAILABLE"]);
    await world.records.change({ namespace: "default", id: "new-c" }, (volume) => ({
      volume: volume.restore === undefined ? volume : { ...volume, restore: { ...volume.restore, claimed: true } },
      ended: [],
      notes: [],
    }));
    await creates("b", "INVALID_ARGUMENT");
    await world.pass(2 * minute);
    expect(await states()).toEqual(["AVAILABLE", "FAILED", "AVAILABLE"]);
    expect((await world.volumeNow("new-b"))?.restore?.end).toBe("kept");
    expect((await restore()).state).toBe("FAILED");
  });
});

it("[I4] [I5] GR1 GR2 whatever meets its calls and its commits, a set ends whole or undone, and leaks nothing", {
  timeout: 120_000,
}, async () => {
  const fate = fc.constantFrom("well" as const, "well" as const, "refused" as const, "away" as const);
  const points = ["controller.create.after-commit", "controller.create.after-call"] as const;
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(fate, fate, fate),
      fc.array(fc.constantFrom("before" as const, "after" as const), { maxLength: 3 }),
      fc.option(fc.record({ point: fc.constantFrom(...points), skip: fc.nat(3) }), { nil: undefined }),
      async (fates, lost, death) => {
        const { release } = await held();
        const names = await Promise.all(sources.map(async (source) => (await world.volumeNow(`new-${source}`))?.name));
        world.backend.setFaults(
          fates.flatMap((one, i) => {
            const code = one === "refused" ? "INVALID_ARGUMENT" : "UNAVAILABLE";
            const fault = { method: "CreateVolume", match: { volume: names[i] ?? "" }, code } as const;
            return one === "well" ? [] : [{ ...fault, times: one === "refused" ? ("always" as const) : 2 }];
          }),
        );
        if (death !== undefined) world.killAt(death.point, death.skip);
        world.loseCommits(...lost);
        await release();
        if (!world.alive) await world.restart();
        world.spare();
        await world.pass(3 * minute, 5_000);
        const whole = !fates.includes("refused");
        const ends = await states();
        if (whole) expect(ends).toEqual(["AVAILABLE", "AVAILABLE", "AVAILABLE"]);
        else expect(ends).toContain("FAILED");
        for (const [i, source] of sources.entries()) {
          if (whole) continue;
          // A create that is in doubt and is refused then is a person's to end, as that of any volume.
          if (ends[i] === "going")
            expect((await world.volumeNow(`new-${source}`))?.blocked?.reason).toBe("CREATE_UNCERTAIN");
          expect(fates[i] === "refused" ? ["FAILED", "gone", "going"] : ["gone"]).toContain(ends[i]);
        }
        expect(storages()).toBe(whole ? 6 : 3);
        well();
        for (const source of sources) await world.deleteVolume(`new-${source}`).catch(() => undefined);
        await world.pass(3 * minute, 5_000);
        expect([await states(), storages()]).toEqual([nothing, 3]);
      },
    ),
    { numRuns: sample(300, 15), seed: 20_261_128 },
  );
});
