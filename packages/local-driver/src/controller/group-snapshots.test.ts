import { describe, expect, test } from "vitest";
import { type ControllerFixture, createControllerFixture, refusalOf } from "../testing/controller-fixture.ts";
import { recoverGroups } from "./recover-groups.ts";

const make = (
  at: ControllerFixture,
  name: string,
  volumeIds: readonly string[],
  parameters: Record<string, string> = {},
) => at.snapshots.createGroup({ name, volumeIds, parameters }, at.signal);

const three = async () => {
  const at = createControllerFixture();
  const volumes = [await at.volume("a"), await at.volume("b"), await at.volume("c")];
  return { at, volumes, ids: volumes.map(({ id }) => id) };
};

describe("createGroup", () => {
  test("is one snapshot of each volume, taken while all of them are frozen together", async () => {
    const { at, volumes, ids } = await three();
    for (const volume of volumes.slice(0, 2)) at.mounted(volume);
    at.memory.calls.length = 0;
    const { group, snapshots } = await make(at, "g", ids);
    expect(group).toEqual({
      kind: "group",
      id: expect.any(String),
      name: "g",
      createdAt: snapshots[0]?.createdAt,
      parameters: {},
      volumeIds: ids,
      snapshotIds: snapshots.map(({ id }) => id),
    });
    expect(snapshots.map(({ volumeId, groupId }) => [volumeId, groupId])).toEqual(ids.map((id) => [id, group.id]));
    expect(new Set(snapshots.map(({ createdAt }) => createdAt)).size).toBe(1);
    expect(at.memory.calls.filter((call) => /freezer|copier.image|groups/.test(call))).toEqual([
      "freezer.during",
      "copier.image",
      "copier.image",
      "copier.image",
      "groups.add",
    ]);
    expect(at.memory.world.frozen.size).toBe(0);
    expect(await at.snapshots.getGroup(group.id, group.snapshotIds)).toEqual({ group, snapshots });
    expect(await at.snapshots.getSnapshot(group.snapshotIds[1] ?? "")).toEqual(snapshots[1]);
  });

  test("by the same name: the same group, whatever the order of the volumes", async () => {
    const { at, ids } = await three();
    const made = await make(at, "g", ids);
    at.memory.calls.length = 0;
    expect(await make(at, "g", ids.toReversed())).toEqual(made);
    expect(at.memory.calls).toEqual([]);
    for (const [volumeIds, parameters] of [
      [ids.slice(1), {}],
      [ids, { live: "allow" }],
    ] as const)
      expect((await refusalOf(make(at, "g", volumeIds, parameters))).code).toBe("ALREADY_EXISTS");
  });

  test("one volume that does not exist, or cannot be held still, and there is none at all", async () => {
    const { at, ids } = await three();
    expect((await refusalOf(make(at, "g", [...ids, "x"]))).code).toBe("NOT_FOUND");
    const directory = await at.volume("d", { parameters: { type: "directory" } });
    at.bound(directory);
    expect((await refusalOf(make(at, "g", [...ids, directory.id]))).code).toBe("FAILED_PRECONDITION");
    expect((await refusalOf(make(at, "g", ids, { x: "y" }))).code).toBe("INVALID_ARGUMENT");
    expect([at.memory.records.snapshots.size, at.memory.records.groups.size]).toEqual([0, 0]);
  });

  test("the third copy fails: the two before it are gone, also when they could not be deleted at once", async () => {
    const { at, ids } = await three();
    at.memory.inject({ on: "copier.image", skip: 2, kind: "fail", code: "INTERNAL" });
    expect((await refusalOf(make(at, "g", ids))).code).toBe("INTERNAL");
    expect(at.memory.records.snapshots.size).toBe(0);

    at.memory.inject(
      { on: "copier.image", skip: 2, kind: "fail", code: "INTERNAL" },
      { on: "snapshots.remove", kind: "fail", code: "INTERNAL" },
    );
    expect((await refusalOf(make(at, "g", ids))).code).toBe("INTERNAL");
    const [left] = [...at.memory.records.snapshots.values()];
    if (left === undefined) throw new Error("nothing was left to look at");
    // Nobody was told of it, so nobody sees it.
    expect((await refusalOf(at.snapshots.getSnapshot(left.id))).code).toBe("NOT_FOUND");
    expect(
      (await at.snapshots.listSnapshots({ maxEntries: 0, startingToken: "" }, { volumeId: "", snapshotId: "" }))
        .entries,
    ).toEqual([]);
    expect((await refusalOf(at.volume("w", { source: { kind: "snapshot", id: left.id } }))).code).toBe("NOT_FOUND");
    const { group } = await make(at, "g", ids);
    expect([...at.memory.records.snapshots.keys()].toSorted()).toEqual(group.snapshotIds.toSorted());
  });

  test("two at once leave each other's members alone", async () => {
    const { at, ids } = await three();
    const others = [await at.volume("d"), await at.volume("e")].map(({ id }) => id);
    // The first waits with its second copy until the second group is made.
    const gate = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const { copier } = at.memory.host;
    const { image } = copier;
    let copies = 0;
    Object.assign(copier, {
      image: async (...args: Parameters<typeof image>) => {
        copies += 1;
        if (copies === 2) {
          reached.resolve();
          await gate.promise;
        }
        await image(...args);
      },
    });
    const first = make(at, "g", ids);
    await reached.promise;
    expect(at.memory.records.snapshots.size).toBe(1);
    const b = await make(at, "h", others);
    gate.resolve();
    const a = await first;
    expect(await at.snapshots.getGroup(a.group.id, a.group.snapshotIds)).toEqual(a);
    expect(await at.snapshots.getGroup(b.group.id, b.group.snapshotIds)).toEqual(b);
  });
});

describe("deleteGroup and getGroup", () => {
  test("takes all of it; a member alone is not deleted", async () => {
    const { at, ids } = await three();
    const { group } = await make(at, "g", ids);
    const [member] = group.snapshotIds;
    if (member === undefined) throw new Error("no member");
    expect(await refusalOf(at.snapshots.deleteSnapshot(member))).toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining(`it belongs to group ${group.id}; delete that by DeleteVolumeGroupSnapshot`),
    });
    const [{ name, volumeId }] = [await at.snapshots.getSnapshot(member)];
    expect(await refusalOf(at.snapshot(name, volumeId))).toMatchObject({
      code: "ALREADY_EXISTS",
      message: expect.stringContaining(`group: it belongs to group ${group.id}`),
    });
    await at.snapshots.deleteGroup(group.id, group.snapshotIds.toReversed());
    expect([at.memory.records.snapshots.size, at.memory.records.groups.size]).toEqual([0, 0]);
    await at.snapshots.deleteGroup(group.id, group.snapshotIds);
    expect((await refusalOf(at.snapshots.getGroup(group.id, group.snapshotIds))).code).toBe("NOT_FOUND");
  });

  test("other snapshots than its own are INVALID_ARGUMENT, and nothing is deleted", async () => {
    const { at, ids } = await three();
    const { group } = await make(at, "g", ids);
    const alone = await at.snapshot("s", ids[0] ?? "");
    for (const wrong of [group.snapshotIds.slice(1), [...group.snapshotIds, alone.id], []]) {
      expect((await refusalOf(at.snapshots.deleteGroup(group.id, wrong))).code).toBe("INVALID_ARGUMENT");
      expect((await refusalOf(at.snapshots.getGroup(group.id, wrong))).code).toBe("INVALID_ARGUMENT");
    }
    expect(at.memory.records.snapshots.size).toBe(4);
    // Of a group that is not there no snapshot is named by its caller alone.
    await at.snapshots.deleteGroup("no such group", [alone.id]);
    expect(at.memory.records.snapshots.size).toBe(4);
  });

  test("a deletion that fails in the middle is ended by its repeat", async () => {
    const { at, ids } = await three();
    const { group } = await make(at, "g", ids);
    at.memory.inject({ on: "snapshots.remove", skip: 1, kind: "fail", code: "INTERNAL" });
    expect((await refusalOf(at.snapshots.deleteGroup(group.id, group.snapshotIds))).code).toBe("INTERNAL");
    expect(at.memory.records.snapshots.size).toBe(2);
    expect((await refusalOf(at.snapshots.getGroup(group.id, group.snapshotIds))).code).toBe("NOT_FOUND");
    await at.snapshots.deleteGroup(group.id, group.snapshotIds);
    expect(at.memory.records.snapshots.size).toBe(0);
  });
});

describe("recoverGroups", () => {
  test("deletes members whose group does not stand, and no others", async () => {
    const { at, ids } = await three();
    const kept = await make(at, "kept", ids);
    const broken = await make(at, "broken", ids);
    const lost = await make(at, "lost", ids.slice(0, 2));
    const alone = await at.snapshot("alone", ids[0] ?? "");
    at.memory.records.groups.delete(lost.group.id);
    at.memory.breakRecord("group", broken.group.id);
    at.restart();
    const said = await recoverGroups(at.memory.host);
    expect(said).toEqual(
      lost.snapshots.map(
        ({ id, name }) => `deleted snapshot ${id} (${JSON.stringify(name)}): its group ${lost.group.id} does not exist`,
      ),
    );
    expect([...at.memory.records.snapshots.keys()].toSorted()).toEqual(
      [...kept.group.snapshotIds, ...broken.group.snapshotIds, alone.id].toSorted(),
    );
    expect(await recoverGroups(at.memory.host)).toEqual([]);
    // Members of a group that cannot be read are still there to restore from.
    const [member] = broken.group.snapshotIds;
    expect((await at.volume("w", { source: { kind: "snapshot", id: member ?? "" } })).name).toBe("w");
    expect((await refusalOf(at.snapshots.deleteGroup(broken.group.id, broken.group.snapshotIds))).code).toBe(
      "FAILED_PRECONDITION",
    );
  });
});
