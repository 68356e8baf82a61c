import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  createSnapshotWorld,
  groupInput,
  type SnapshotWorld,
  simPlugin,
  snapshotInput,
} from "../../../../../test/support/controller/snapshot-world.ts";
import { volumeInput } from "../../../../../test/support/controller/world.ts";
import { snapshotFailpoints } from "../failpoints.ts";

let world: SnapshotWorld;
const minute = 60_000;

beforeEach(async () => {
  world = await createSnapshotWorld({ storage: { snapshotPolls: 1 } });
  for (const id of ["a", "b"]) await world.makeVolume(id);
  world.backend.clear();
});

afterEach(async () => {
  expect(world.backend.violations()).toEqual([]);
  await world.close();
});

const counts = () => {
  const { volumes, snapshots, groups } = world.backend.state();
  return [volumes.size, snapshots.size, groups.size];
};

const from = (kind: "snapshot" | "volume", id: string) =>
  ({ contentSource: { kind, id }, capacity: { required: 0, limit: 0 } }) as const;

describe("a group", () => {
  it("W54 O54 C64 is cut at once, repeated until ready, and deleted with exactly its snapshots", async () => {
    const group = await world.group("g", { "g-a": "a", "g-b": "b" });
    expect(group).toMatchObject({ kind: "group", state: "CUT" });
    await world.pass(minute);
    const ready = await world.snapshots.getGroup({ namespace: "default", id: "g" });
    expect(ready.record.state).toBe("READY");
    expect(ready.snapshots.map(({ record }) => [record.id, record.volume, record.state, record.group])).toEqual([
      ["g-a", "a", "READY", "g"],
      ["g-b", "b", "READY", "g"],
    ]);
    expect(await world.now("snapshot", "g-a")).toEqual(ready.snapshots[0]?.record);
    expect(world.calls()).toEqual(["CreateVolumeGroupSnapshot", "CreateVolumeGroupSnapshot"]);
    expect(counts()).toEqual([2, 2, 1]);
    await world.remove("group", "g");
    expect(counts()).toEqual([2, 0, 0]);
    for (const [kind, id] of [
      ["group", "g"],
      ["snapshot", "g-a"],
      ["snapshot", "g-b"],
    ] as const) {
      expect(await world.now(kind, id)).toBeUndefined();
      expect(await world.remove(kind, id)).toBe(true);
    }
    expect(world.calls("DeleteVolumeGroupSnapshot", "DeleteSnapshot")).toEqual(["DeleteVolumeGroupSnapshot"]);
  });

  it("C63 O53 lets none of its members be deleted alone", async () => {
    await world.group("g", { "g-a": "a" });
    await expect(world.remove("snapshot", "g-a")).rejects.toMatchObject({
      reason: "SNAPSHOT_IN_USE",
      metadata: { snapshot: "g-a", group: "g" },
    });
    await world.pass(minute);
    expect(world.calls("DeleteSnapshot")).toEqual([]);
  });

  it("holds on to each of its volumes until all of it is ready", async () => {
    await world.group("g", { "g-a": "a", "g-b": "b" });
    await expect(world.deleteVolume("b")).rejects.toMatchObject({
      reason: "VOLUME_IN_USE",
      message: expect.stringContaining("group default/g"),
    });
    await expect(
      world.commands.deregisterVolume({ namespace: "default", id: "a", uid: "", requestId: "" }, world.caller),
    ).rejects.toMatchObject({ reason: "VOLUME_IN_USE" });
    await world.pass(minute);
    await world.deleteVolume("b");
    await world.idle();
    expect(await world.volumeNow("b")).toBeUndefined();
  });

  it("is refused for volumes of two plugins, for ids that are taken, and for a plugin that cannot", async () => {
    await world.records.insert((at) => ({
      volume: otherVolume(at.now),
      ended: [],
      notes: [],
    }));
    await expect(world.group("g", { "g-a": "a", "g-o": "other" })).rejects.toMatchObject({
      reason: "CAPABILITY_MISMATCH",
      metadata: { field: "members" },
    });
    await world.snapshot("taken", "a");
    await expect(world.group("g", { taken: "a" })).rejects.toMatchObject({ reason: "SNAPSHOT_EXISTS" });
    await expect(world.group("g", { x: "none" })).rejects.toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    world.setFacts((facts) => ({ ...facts, group: { CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT: "no" } }));
    await expect(world.group("g", { "g-a": "a" })).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH" });
    expect(await world.now("group", "g")).toBeUndefined();
  });
});

/** A volume of another plugin, as it stands when it was made. */
const otherVolume = (now: number) => ({
  ...volumeInput("other"),
  plugin: "other.plugin",
  uid: "uid-other",
  name: "other",
  externalId: "ext-other",
  pluginVersion: "",
  capacity: { required: 1, limit: 0, actual: 1 },
  topology: { required: [], preferred: [], accessible: [] },
  context: {},
  state: "AVAILABLE" as const,
  goal: "present" as const,
  epoch: { gen: 0, ctr: 0 },
  claims: {},
  attachments: {},
  bars: [],
  attempts: { count: 0, nextTry: 0 },
  createdAt: now,
  updatedAt: now,
  stateSince: now,
  changedBy: { who: "t", why: "t" },
});

describe("a volume that is made from something", () => {
  it("C36 is made by the plugin's own id of a snapshot or a volume, as large as that, and by no other", async () => {
    await world.snapshot("s", "a");
    await expect(world.makeVolume("early", from("snapshot", "s"))).rejects.toMatchObject({
      reason: "SNAPSHOT_NOT_READY",
      metadata: { state: "CUT" },
    });
    await world.pass(minute);
    const size = (await world.now("snapshot", "s")) as { readonly sizeBytes: number };
    expect(await world.makeVolume("restored", from("snapshot", "s"))).toMatchObject({
      state: "AVAILABLE",
      capacity: { actual: size.sizeBytes },
    });
    expect(await world.makeVolume("clone", from("volume", "a"))).toMatchObject({ state: "AVAILABLE" });
    await expect(
      world.makeVolume("small", { ...from("volume", "a"), capacity: { required: 10, limit: 20 } }),
    ).rejects.toMatchObject({
      kind: "invalid",
      violations: [{ field: "capacity.required_bytes" }, { field: "capacity.limit_bytes" }],
    });
    await expect(world.makeVolume("none", from("snapshot", "nope"))).rejects.toMatchObject({
      reason: "SNAPSHOT_NOT_FOUND",
    });
    const cap = world.makeVolume("foreign", { ...from("snapshot", "s"), plugin: "other.plugin" });
    await expect(cap).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH" });
    world.setFacts((facts) => ({ ...facts, controller: { ...facts.controller, CLONE_VOLUME: "no" } }));
    await expect(world.makeVolume("noclone", from("volume", "a"))).rejects.toMatchObject({
      reason: "CAPABILITY_MISMATCH",
    });
  });

  it.each(["snapshot", "volume"] as const)(
    "holds on to its %s from the commit of its intent until it is made",
    async (kind) => {
      const id = kind === "snapshot" ? "s" : "a";
      if (kind === "snapshot") {
        await world.snapshot("s", "a");
        await world.pass(minute);
      }
      const gate = Promise.withResolvers<void>();
      world.transport.hold(gate.promise);
      await world.commands.createVolume(volumeInput("copy", { plugin: simPlugin, ...from(kind, id) }), world.caller);
      const removing =
        kind === "snapshot"
          ? world.snapshots.deleteCut(
              { kind, namespace: "default", id, uid: "", requestId: "", forget: false },
              world.caller,
            )
          : world.deleteVolume(id);
      await expect(removing).rejects.toMatchObject({
        reason: kind === "snapshot" ? "SNAPSHOT_IN_USE" : "VOLUME_IN_USE",
        message: expect.stringContaining("volume default/copy"),
      });
      world.transport.hold(undefined);
      gate.resolve();
      await world.idle();
      expect(await world.volumeNow("copy")).toMatchObject({ state: "AVAILABLE" });
      if (kind === "snapshot") await world.remove("snapshot", "s");
      else await world.deleteVolume("a");
      await world.idle();
      expect(counts()).toEqual(kind === "snapshot" ? [3, 0, 0] : [2, 0, 0]);
    },
  );

  it("whose source is gone at the backend fails, and can be deleted without a call", async () => {
    await world.snapshot("s", "a");
    await world.pass(minute);
    world.backend.state().snapshots.clear();
    expect(await world.makeVolume("copy", from("snapshot", "s"))).toMatchObject({ state: "FAILED" });
    await world.deleteVolume("copy");
    await world.idle();
    expect(await world.volumeNow("copy")).toBeUndefined();
    expect(world.calls("DeleteVolume")).toEqual([]);
    // Nothing holds on to the snapshot any more.
    await world.remove("snapshot", "s");
    expect(await world.now("snapshot", "s")).toBeUndefined();
  });

  it("that nobody wants any more is replayed and deleted, and then its source is free", async () => {
    await world.snapshot("s", "a");
    await world.pass(minute);
    world.transport.chance((method) => (method === "CreateVolume" ? { kind: "lost" } : undefined));
    await world.makeVolume("copy", from("snapshot", "s"));
    await world.deleteVolume("copy");
    await expect(world.remove("snapshot", "s")).rejects.toMatchObject({ reason: "SNAPSHOT_IN_USE" });
    world.transport.chance(undefined);
    await world.pass(2 * minute);
    expect(await world.volumeNow("copy")).toBeUndefined();
    await world.remove("snapshot", "s");
    expect(counts()).toEqual([2, 0, 0]);
  });

  it.each(["snapshot", "volume"] as const)(
    "C30 holds on to its %s while its create is in doubt, so that each repeat says what the first call said",
    async (kind) => {
      const id = kind === "snapshot" ? "s" : "a";
      if (kind === "snapshot") {
        await world.snapshot("s", "a");
        await world.pass(minute);
      }
      const faults = [{ kind: "lost" }, { kind: "code", code: "INVALID_ARGUMENT", when: "before" }] as const;
      const left = [...faults];
      world.transport.chance((method) => (method === "CreateVolume" ? left.shift() : undefined));
      await world.makeVolume("copy", from(kind, id));
      await world.pass(minute);
      expect(await world.volumeNow("copy")).toMatchObject({
        state: "FAILED",
        blocked: { reason: "CREATE_UNCERTAIN" },
      });
      const remove = async () => {
        if (kind === "snapshot") await world.remove("snapshot", id);
        else await world.deleteVolume(id);
        await world.idle();
      };
      await expect(remove()).rejects.toMatchObject({
        reason: kind === "snapshot" ? "SNAPSHOT_IN_USE" : "VOLUME_IN_USE",
        message: expect.stringMatching(
          /volume default\/copy, whose create from it is in doubt.*holdfast volume delete copy/,
        ),
      });
      await world.deleteVolume("copy");
      await world.pass(minute);
      expect(await world.volumeNow("copy")).toBeUndefined();
      await remove();
      expect(counts()).toEqual(kind === "snapshot" ? [2, 0, 0] : [1, 0, 0]);
    },
  );

  it("C30 whose source is gone at the backend while its create is in doubt is never asked for without it", async () => {
    world.transport.chance((method) => (method === "CreateVolume" ? { kind: "lost" } : undefined));
    await world.makeVolume("copy", from("volume", "a"));
    world.transport.chance(undefined);
    const source = (await world.volumeNow("a"))?.externalId ?? "";
    world.backend.state().volumes.delete(source);
    await world.pass(minute);
    await world.deleteVolume("copy");
    await world.pass(minute);
    expect(await world.volumeNow("copy")).toMatchObject({
      goal: "absent",
      blocked: { reason: "CREATE_UNCERTAIN", clearWith: expect.stringContaining("repair forget-volume copy") },
    });
    const asked = world.backend.record().filter(({ method }) => method === "CreateVolume");
    expect(asked.length).toBeGreaterThan(1);
  });

  it("and the deletion of its source, asked for together: one of the two succeeds", async () => {
    for (let n = 0; n < 20; n += 1) {
      await world.makeVolume(`src-${n}`);
      const wanted = [
        world.commands.createVolume(
          volumeInput(`copy-${n}`, { plugin: simPlugin, ...from("volume", `src-${n}`) }),
          world.caller,
        ),
        world.deleteVolume(`src-${n}`),
        world.snapshots.createSnapshot(snapshotInput(`snap-${n}`, `src-${n}`), world.caller),
      ];
      const settled = Promise.allSettled(n % 2 === 0 ? wanted : wanted.toReversed());
      await world.idle();
      await settled;
      await world.pass(minute);
      const copy = await world.volumeNow(`copy-${n}`);
      const snapshot = await world.now("snapshot", `snap-${n}`);
      if (copy !== undefined) expect(copy.state).toBe("AVAILABLE");
      if (snapshot !== undefined) expect(snapshot.state).toBe("READY");
      const source = await world.volumeNow(`src-${n}`);
      expect([copy === undefined, snapshot === undefined], "both or neither").toEqual([
        source === undefined,
        source === undefined,
      ]);
    }
  });
});

describe("what is asked for again", () => {
  it("answers what is there, and names the first field that differs", async () => {
    await world.snapshot("s", "a", { labels: { x: "1" } });
    const again = await world.snapshots.createSnapshot(snapshotInput("s", "a", { labels: { x: "1" } }), world.caller);
    expect(again.record.id).toBe("s");
    const other = (change: object) => world.snapshots.createSnapshot(snapshotInput("s", "a", change), world.caller);
    await expect(other({ volume: "b" })).rejects.toMatchObject({
      reason: "SNAPSHOT_EXISTS",
      metadata: { field: "volume" },
    });
    await expect(other({ labels: {} })).rejects.toMatchObject({ metadata: { field: "labels" } });
    await expect(other({ labels: { x: "1" }, parameters: { y: "" } })).rejects.toMatchObject({
      metadata: { field: "parameters" },
    });
    await world.group("g", { "g-a": "a" });
    await expect(world.snapshots.createGroup(groupInput("g", { "g-a": "b" }), world.caller)).rejects.toMatchObject({
      reason: "SNAPSHOT_GROUP_EXISTS",
      metadata: { field: "members" },
    });
    expect(world.calls("CreateSnapshot").length).toBe(1);
  });

  it.each(["before", "after"] as const)(
    "[I4] and a commit whose answer was lost, %s it was stored, are settled by reading",
    async (when) => {
      world.loseCommits(when);
      const cut = await world.snapshot("s", "a");
      expect(["CUT", "READY"]).toContain(cut.state);
      world.loseCommits(when);
      await world.pass(minute);
      expect(await world.now("snapshot", "s")).toMatchObject({ state: "READY" });
      expect(counts()).toEqual([2, 1, 0]);
      world.loseCommits(when);
      const gone = world.remove("snapshot", "s");
      await world.pass(minute);
      await gone;
      expect(counts()).toEqual([2, 0, 0]);
    },
  );

  it("[I5] while the store cannot take the answer counts as not answered", async () => {
    world.transport.chance((method) => {
      if (method === "CreateSnapshot") world.failCommits(1);
      return undefined;
    });
    await world.snapshot("s", "a");
    world.transport.chance((method) =>
      method === "CreateSnapshot" ? { kind: "code", code: "INVALID_ARGUMENT", when: "before" } : undefined,
    );
    await world.pass(5_000);
    expect(await world.now("snapshot", "s")).toMatchObject({
      state: "CREATING",
      blocked: { reason: "CREATE_UNCERTAIN" },
    });
    world.transport.chance(undefined);
    await world.pass(3 * minute);
    expect(await world.now("snapshot", "s")).toMatchObject({ state: "READY" });
    expect(counts()).toEqual([2, 1, 0]);
  });
});

it.each(snapshotFailpoints)(
  "[I4] a controller that dies at %s leaves nothing behind and nothing stuck",
  async (point) => {
    world.killAt(point);
    const steps: readonly (() => Promise<unknown>)[] = [
      () => world.snapshots.createSnapshot(snapshotInput("s", "a"), world.caller),
      () => world.snapshots.createGroup(groupInput("g", { "g-a": "a", "g-b": "b" }), world.caller),
      () => world.remove("snapshot", "s"),
      () => world.remove("group", "g"),
    ];
    let deaths = 0;
    for (const step of steps) {
      await step();
      await world.idle();
      if (!world.alive) {
        deaths += 1;
        await world.restart();
      }
      await world.pass(2 * minute);
    }
    expect(deaths).toBe(1);
    expect(counts()).toEqual([2, 0, 0]);
    expect(world.size()).toBe(0);
  },
);

describe("lists", () => {
  it("are paged, and narrowed by what a snapshot has", async () => {
    for (const id of ["s1", "s2", "s3"]) await world.snapshot(id, id === "s3" ? "b" : "a", { labels: { n: id } });
    await world.group("g", { "g-b": "b" });
    await world.pass(minute);
    const all = { namespace: "default", volume: "", plugin: "", group: "", states: [], blocked: false, labels: {} };
    const listed = async (change: object, size = 100) => {
      const ids: string[] = [];
      let after: string | undefined;
      do {
        const page = await world.snapshots.listSnapshots({ ...all, ...change }, { size, after });
        expect(page.items.length).toBeLessThanOrEqual(size);
        ids.push(...page.items.map(({ record }) => record.id));
        after = page.next;
      } while (after !== undefined);
      return ids;
    };
    expect(await listed({}, 2)).toEqual(["g-b", "s1", "s2", "s3"]);
    expect(await listed({ volume: "b" })).toEqual(["g-b", "s3"]);
    expect(await listed({ group: "g" })).toEqual(["g-b"]);
    expect(await listed({ namespace: "", plugin: simPlugin })).toHaveLength(4);
    expect(await listed({ labels: { n: "s2" } })).toEqual(["s2"]);
    expect(await listed({ states: ["CUT"] })).toEqual([]);
    expect(await listed({ namespace: "other" })).toEqual([]);
    const groups = await world.snapshots.listGroups({ ...all, volume: "b" }, { size: 5, after: undefined });
    expect(groups.items.map(({ record }) => record.id)).toEqual(["g"]);
  });

  it("X37 C65 O47 of the backend show every row once, known or not, and begin anew when the plugin says so", async () => {
    await world.snapshot("s1", "a");
    await world.snapshot("s2", "b");
    const list = (after?: string, size = 1) =>
      world.snapshots.listExternal(
        { plugin: simPlugin, externalVolumeId: "", namespace: "default", secretRef: undefined },
        { size, after },
        new AbortController().signal,
      );
    const first = await list();
    expect(first.items).toHaveLength(1);
    const second = await list(first.next);
    expect([...first.items, ...second.items].map(({ known }) => known?.id).sort()).toEqual(["s1", "s2"]);
    // A plugin that hands out more than it was asked for: nothing of it is dropped, and nothing shown twice.
    world.transport.alter((method, response) => {
      if (method !== "ListSnapshots") return response;
      const { entries } = response as { readonly entries: readonly { readonly snapshot: object }[] };
      const strange = { snapshot: { ...entries[0]?.snapshot, snapshotId: "nobodys" } };
      return { entries: [...entries, ...entries, strange], nextToken: "" };
    });
    const odd = await list();
    expect(odd.items.map(({ externalId, known }) => [externalId === "nobodys", known === undefined])).toEqual([
      [false, false],
      [true, true],
    ]);
    world.transport.alter(undefined);
    await expect(list("no-such-token")).rejects.toMatchObject({ kind: "aborted", reason: "PAGE_TOKEN_EXPIRED" });
    world.setFacts((facts) => ({ ...facts, controller: { ...facts.controller, LIST_SNAPSHOTS: "no" } }));
    await expect(list()).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH" });
  });
});

describe("the blocks of a snapshot", () => {
  const read = async (
    change: { readonly base?: string; readonly startingOffset?: bigint; readonly maxResults?: number } = {},
  ) => {
    const input = {
      namespace: "default",
      base: "",
      target: "s",
      startingOffset: 0n,
      maxResults: 2,
      totalMs: 600_000,
      ...change,
    };
    const seen: bigint[] = [];
    for await (const { blocks } of world.snapshots.blocks(input, new AbortController().signal))
      seen.push(...blocks.map(({ offset }) => offset));
    return seen;
  };
  const readOver = async (change?: Parameters<typeof read>[0]) => {
    const reading = read(change);
    reading.catch(() => undefined);
    await world.pass(minute);
    return await reading;
  };

  beforeEach(async () => {
    await world.makeVolume("big", { capacity: { required: 64 << 20, limit: 0 } });
    await world.snapshot("s", "big");
    await world.snapshot("later", "big");
    await world.snapshot("of-a", "a");
    await world.pass(minute);
  });

  it("C69 O62 go on at the end of the last one when the plugin goes away, and the reader sees each once", async () => {
    const all = await read();
    expect(all.length).toBeGreaterThan(6);
    world.transport.breakStreams(
      { after: 1, code: "UNAVAILABLE" },
      { after: 0, code: "UNAVAILABLE" },
      { after: 2, code: "UNAVAILABLE" },
    );
    expect(await readOver()).toEqual(all);
    expect(await read({ startingOffset: all[3] ?? 0n })).toEqual(all.slice(3));
  });

  it("end with an error when nothing new comes any more, or when the plugin refuses", async () => {
    const away = { after: 0, code: "UNAVAILABLE" } as const;
    world.transport.breakStreams(away, away, away, away, away);
    await expect(readOver()).rejects.toMatchObject({ reason: "STREAM_BROKEN", kind: "unavailable" });
    world.transport.breakStreams();
    await readOver().catch(() => undefined);
    world.transport.breakStreams({ after: 1, code: "INTERNAL" });
    await expect(readOver()).rejects.toMatchObject({ reason: "STREAM_BROKEN", kind: "internal" });
    await expect(read({ startingOffset: 1n << 40n })).rejects.toMatchObject({ kind: "out_of_range" });
  });

  it("of a reader that stops are asked for no further", async () => {
    const before = world.transport.sentMessages();
    const input = { namespace: "default", base: "", target: "s", startingOffset: 0n, maxResults: 1, totalMs: 1_000 };
    for await (const _ of world.snapshots.blocks(input, new AbortController().signal)) break;
    expect(world.transport.sentMessages() - before).toBe(1);
  });

  it("are of one volume, and of a snapshot that is ready", async () => {
    expect((await read({ base: "later" })).length).toBeGreaterThan(0);
    await expect(read({ base: "of-a" })).rejects.toMatchObject({
      kind: "invalid",
      violations: [{ field: "base_snapshot" }],
    });
    await expect(read({ base: "nope" })).rejects.toMatchObject({ reason: "SNAPSHOT_NOT_FOUND" });
    await expect(read({ startingOffset: -1n, maxResults: -1 })).rejects.toMatchObject({ kind: "invalid" });
    await world.snapshot("fresh", "a");
    const input = {
      namespace: "default",
      base: "",
      target: "fresh",
      startingOffset: 0n,
      maxResults: 1,
      totalMs: 1_000,
    };
    const first = world.snapshots.blocks(input, new AbortController().signal)[Symbol.asyncIterator]().next();
    await expect(first).rejects.toMatchObject({ reason: "SNAPSHOT_NOT_READY" });
    world.setFacts((facts) => ({ ...facts, plugin: { ...facts.plugin, SNAPSHOT_METADATA_SERVICE: "no" } }));
    await expect(read()).rejects.toMatchObject({ reason: "CAPABILITY_MISMATCH" });
  });

  it("that come out of order break the stream: nobody could go on from them", async () => {
    let n = 0;
    world.transport.alter((method, response) => {
      if (method !== "GetMetadataAllocated") return response;
      n += 1;
      return n === 2 ? { ...(response as object), blockMetadata: [{ byteOffset: 0n, sizeBytes: 1n }] } : response;
    });
    await expect(read()).rejects.toMatchObject({
      reason: "STREAM_BROKEN",
      message: expect.stringContaining("ask again from offset"),
    });
  });
});
