import { describe, expect, test } from "vitest";
import { DriverError } from "../domain/driver-error.ts";
import {
  bytes,
  type ControllerFixture,
  createControllerFixture,
  mib,
  mounting,
  raw,
  volumeInput,
} from "../testing/controller-fixture.ts";
import { type Fault, Killed, type PortCall } from "../testing/memory-faults.ts";
import { recoverGroups } from "./recover-groups.ts";

/**
 * Every call that an operation makes × everything that can go wrong with it. Afterwards it either was not done or is done, nothing is
 * left behind, and the same call again gives what it gives undisturbed.
 */

const all = { maxEntries: 0, startingToken: "" };
const idOf = (at: ControllerFixture, kind: "volumes" | "snapshots" | "groups", name: string): string => {
  for (const record of at.memory.records[kind].values()) if (record.name === name) return record.id;
  return `no ${kind} ${name}`;
};

/** Calls that are given the signal of the caller. */
const canHang: ReadonlySet<PortCall> = new Set<PortCall>([
  "images.create",
  "images.grow",
  "images.newIdentity",
  "copier.image",
  "copier.tree",
  "freezer.during",
  "loops.detach",
]);

interface Scenario {
  readonly name: string;
  readonly prepare: (at: ControllerFixture) => Promise<unknown>;
  readonly act: (at: ControllerFixture, signal: AbortSignal) => Promise<unknown>;
}

const origin = async (at: ControllerFixture) => {
  const volume = await at.volume("origin", { capacity: bytes(100n * mib) });
  at.mounted(volume);
  at.memory.write(volume.id, mib, 3, 7);
  return volume;
};
const fromOrigin = (at: ControllerFixture) => ({ kind: "volume", id: idOf(at, "volumes", "origin") }) as const;
const groupIds = (at: ControllerFixture) => at.memory.records.groups.get(idOf(at, "groups", "g"))?.snapshotIds ?? [];
const threeOf = (at: ControllerFixture) => ["a", "b", "origin"].map((name) => idOf(at, "volumes", name));
const makeGroup = (at: ControllerFixture, signal: AbortSignal) =>
  at.snapshots.createGroup({ name: "g", volumeIds: threeOf(at), parameters: {} }, signal);
const threeVolumes = async (at: ControllerFixture) => {
  await origin(at);
  await at.volume("a", { capabilities: [raw] });
  await at.volume("b", { parameters: { type: "directory" } });
};
/** The ids that a caller knows do not change with what became of them. */
const remembered = new WeakMap<ControllerFixture, { readonly id: string; readonly snapshotIds: readonly string[] }>();

const scenarios: readonly Scenario[] = [
  {
    name: "create an image",
    prepare: async () => undefined,
    act: (at, signal) => at.volumes.createVolume(volumeInput("v"), signal),
  },
  {
    name: "create a directory",
    prepare: async () => undefined,
    act: (at, signal) => at.volumes.createVolume(volumeInput("v", { parameters: { type: "directory" } }), signal),
  },
  {
    name: "clone a mounted image into a larger one",
    prepare: origin,
    act: (at, signal) =>
      at.volumes.createVolume(volumeInput("v", { source: fromOrigin(at), capacity: bytes(200n * mib) }), signal),
  },
  {
    name: "restore a snapshot",
    prepare: async (at) => at.snapshot("s", (await origin(at)).id),
    act: (at, signal) =>
      at.volumes.createVolume(
        volumeInput("v", { source: { kind: "snapshot", id: idOf(at, "snapshots", "s") } }),
        signal,
      ),
  },
  {
    name: "delete a volume that a killed life left on a device",
    prepare: async (at) => {
      const volume = await at.volume("v");
      at.mounted(volume);
      at.memory.world.mounts.length = 0;
      at.memory.records.volumes.set(volume.id, volume);
      remembered.set(at, { id: volume.id, snapshotIds: [] });
    },
    act: (at, signal) => at.volumes.deleteVolume(remembered.get(at)?.id ?? "", signal),
  },
  {
    name: "expand",
    prepare: origin,
    act: (at, signal) =>
      at.volumes.expandVolume(fromOrigin(at).id, { capacity: bytes(200n * mib), capability: mounting }, signal),
  },
  { name: "modify", prepare: origin, act: (at) => at.volumes.modifyVolume(fromOrigin(at).id, { "label.a": "1" }) },
  {
    name: "attach",
    prepare: origin,
    act: (at) => at.volumes.attach(fromOrigin(at).id, { nodeId: "node-a", capability: mounting, readonly: false }),
  },
  {
    name: "detach",
    prepare: async (at) => {
      const { id } = await origin(at);
      await at.volumes.attach(id, { nodeId: "node-a", capability: mounting, readonly: false });
    },
    act: (at) => at.volumes.detach(fromOrigin(at).id, "node-a"),
  },
  {
    name: "snapshot a mounted image",
    prepare: origin,
    act: (at, signal) =>
      at.snapshots.createSnapshot({ name: "s", volumeId: fromOrigin(at).id, parameters: {} }, signal),
  },
  {
    name: "snapshot a directory",
    prepare: (at) => at.volume("origin", { parameters: { type: "directory" } }),
    act: (at, signal) =>
      at.snapshots.createSnapshot({ name: "s", volumeId: fromOrigin(at).id, parameters: {} }, signal),
  },
  {
    name: "delete a snapshot",
    prepare: async (at) => {
      const { id } = await at.snapshot("s", (await origin(at)).id);
      remembered.set(at, { id, snapshotIds: [] });
    },
    act: (at) => at.snapshots.deleteSnapshot(remembered.get(at)?.id ?? ""),
  },
  { name: "snapshot a group", prepare: threeVolumes, act: makeGroup },
  {
    name: "delete a group",
    prepare: async (at) => {
      await threeVolumes(at);
      await makeGroup(at, at.signal);
      remembered.set(at, { id: idOf(at, "groups", "g"), snapshotIds: groupIds(at) });
    },
    act: (at) => {
      const { id, snapshotIds } = remembered.get(at) ?? { id: "", snapshotIds: [] };
      return at.snapshots.deleteGroup(id, snapshotIds);
    },
  },
];

/** What callers can see, by names instead of ids. */
async function picture(at: ControllerFixture) {
  const { records, world, host } = at.memory;
  const volumeName = (id: string) => records.volumes.get(id)?.name ?? id;
  const contents = (paths: { readonly data: string; readonly image: string }, bytes: bigint) => {
    const file = world.files.get(paths.image) ?? world.files.get(paths.data);
    if (file?.kind !== "image") return file;
    // Which number an identity has is chance; that it is another than that of the source is not.
    const others = [...world.files]
      .filter(([path, each]) => path.includes("/volumes/") && each !== file)
      .map(([, each]) => each);
    // A file that grew before its record did is found by the repeat; the other way round it would be a promise that does not hold.
    const large = file.bytes >= bytes;
    return {
      ...file,
      bytes: large,
      identity: others.some((each) => each.kind === "image" && each.identity === file.identity),
    };
  };
  const listed = await at.volumes.listVolumes(all);
  const snapshots = await at.snapshots.listSnapshots(all, { volumeId: "", snapshotId: "" });
  return structuredClone({
    volumes: listed.entries
      .map(({ volume: { id, createdAt: _, source, ...volume }, condition }) => ({
        ...volume,
        condition: condition.abnormal,
        from: source?.kind,
        contents: contents(host.state.volumes.paths(id), volume.capacityBytes),
      }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    snapshots: snapshots.entries
      .map(({ id, createdAt: _, volumeId, groupId, name, ...snapshot }) => ({
        ...snapshot,
        name: groupId === undefined ? name : "of a group",
        of: volumeName(volumeId),
        contents: contents(host.state.snapshots.paths(id), snapshot.sizeBytes),
      }))
      .toSorted((a, b) => (`${a.name} ${a.of}` < `${b.name} ${b.of}` ? -1 : 1)),
    groups: [...records.groups.values()].map(({ name, volumeIds }) => [name, ...volumeIds.map(volumeName)]),
    mounts: world.mounts.map(({ mountPoint }) => mountPoint),
    frozen: [...world.frozen],
  });
}

/** Everything on the disk, whoever may see it. */
const disk = (at: ControllerFixture) => ({
  files: at.memory.world.files.size,
  records: [at.memory.records.volumes.size, at.memory.records.snapshots.size, at.memory.records.groups.size],
  loops: at.memory.world.loops.size,
  unowned: at.memory.leftovers().filter((line) => line.includes("belongs to no record")),
});

const prepared = async (scenario: Scenario) => {
  const at = createControllerFixture();
  await scenario.prepare(at);
  at.memory.calls.length = 0;
  return at;
};

const undisturbed = async (scenario: Scenario) => {
  const at = await prepared(scenario);
  const before = await picture(at);
  at.memory.calls.length = 0;
  await scenario.act(at, at.signal);
  const calls = [...at.memory.calls];
  return { before, calls, after: await picture(at), disk: disk(at) };
};

describe.each(scenarios)("$name", (scenario) => {
  /** One fault at the nth call; `check` sees what came of it. */
  const eachCall = async (
    faultAt: (n: number) => Fault,
    disturbed: (at: ControllerFixture, failure: unknown) => Promise<void>,
    signalOf: (at: ControllerFixture) => AbortSignal = (at) => at.signal,
  ) => {
    const clean = await undisturbed(scenario);
    for (let n = 0; n < clean.calls.length; n += 1) {
      const at = await prepared(scenario);
      at.memory.inject(faultAt(n));
      const failure: unknown = await scenario.act(at, signalOf(at)).then(
        () => undefined,
        (error: unknown) => error,
      );
      const where = `call ${n}, ${clean.calls[n]}`;
      at.memory.clearFaults();
      await disturbed(at, failure);
      expect(disk(at).unowned, where).toEqual([]);
      const between = await picture(at);
      expect(between.frozen, where).toEqual([]);
      // A deletion that did one of its steps may have done no more.
      expect([clean.before, clean.after], where).toContainEqual(between);
      if (failure === undefined) expect(between, where).toEqual(clean.after);
      await scenario.act(at, at.signal);
      expect(await picture(at), where).toEqual(clean.after);
      expect(disk(at), where).toEqual(clean.disk);
    }
    return clean.calls;
  };

  test("undisturbed, and once more", async () => {
    const clean = await undisturbed(scenario);
    expect(clean.after).not.toEqual(clean.before);
    const at = await prepared(scenario);
    await scenario.act(at, at.signal);
    await scenario.act(at, at.signal);
    expect(await picture(at)).toEqual(clean.after);
    expect(disk(at)).toEqual(clean.disk);
  });

  test.each(["INTERNAL", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"] as const)("refused with %s", async (code) => {
    await eachCall(
      (n) => ({ on: "*", skip: n, kind: "fail", code }),
      async (_, failure) => {
        if (failure === undefined) return;
        expect(failure).toBeInstanceOf(DriverError);
        expect(failure).toMatchObject({
          code,
          message: expect.stringMatching(/ on node node-a: .*a fault of the test/),
        });
      },
    );
  });

  test("done, and the answer lost", async () => {
    await eachCall(
      (n) => ({ on: "*", skip: n, kind: "lost", code: "INTERNAL" }),
      async (_, failure) => {
        if (failure !== undefined) expect(failure).toBeInstanceOf(DriverError);
      },
    );
  });

  test.each(["before", "after"] as const)("killed %s it", async (when) => {
    await eachCall(
      (n) => ({ on: "*", skip: n, kind: "die", when }),
      async (at, failure) => {
        if (failure !== undefined) expect(failure).toBeInstanceOf(Killed);
        at.restart();
        await recoverGroups(at.memory.host);
        // As the node's recovery does.
        for (const { mountPoint, dev } of at.memory.world.mounts)
          if (at.memory.world.frozen.has(dev)) await at.memory.host.freezer.thaw(mountPoint, at.signal);
      },
    );
  });

  test("hanging until the caller gives up", async () => {
    let waited = 0;
    const callers = new WeakMap<ControllerFixture, AbortController>();
    const calls = await eachCall(
      (n) => ({ on: "*", skip: n, kind: "hang" }),
      async (_, failure) => {
        // Calls that take no signal end by themselves: the memory host says so instead of hanging.
        if (failure instanceof Error && failure.message.includes("was given no signal")) return;
        if (failure === undefined) return;
        expect(failure).toMatchObject({ name: "AbortError", message: "the caller left" });
        waited += 1;
      },
      (at) => {
        const caller = new AbortController();
        callers.set(at, caller);
        setImmediate(() => setImmediate(() => caller.abort(new DOMException("the caller left", "AbortError"))));
        return caller.signal;
      },
    );
    expect(waited).toBe(calls.filter((call) => canHang.has(call)).length);
  });
});
