import { expect, test } from "vitest";
import { DriverError } from "../domain/driver-error.ts";
import type { ContentPaths } from "../ports.ts";
import { createMemoryDisk } from "../testing/memory-disk.ts";
import { groupRecord, stateOnDisk, stateRoot, volumeRecord } from "../testing/state-on-disk.ts";
import { sealRecord } from "./record-codec.ts";

const nothing = async () => undefined;
const tick = () => new Promise((resolve) => setImmediate(resolve));

async function opened() {
  const disk = createMemoryDisk();
  const life = disk.begin();
  return { disk, life, ...(await stateOnDisk(life)) };
}

function gate() {
  let open = (): void => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, passed };
}

test("one of a name at a time: a second one waits for nothing and is refused, and the name is free after a failure", async () => {
  const { state } = await opened();
  const { open, passed } = gate();
  const failing = state.volumes.add(volumeRecord("v1", "data"), async () => {
    await passed;
    throw new DriverError("DEADLINE_EXCEEDED", "too late");
  });
  await tick();
  await expect(state.volumes.add(volumeRecord("v2", "data"), nothing)).rejects.toMatchObject({
    code: "ABORTED",
    message: 'a volume named "data" is being made; repeat the call',
  });
  await state.volumes.add(volumeRecord("v3", "other"), nothing);
  // Groups have names of their own.
  await state.groups.add(groupRecord("g1", "data"), nothing);
  open();
  await expect(failing).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED", message: "too late" });
  await state.volumes.add(volumeRecord("v2", "data"), nothing);
  expect(state.volumes.all().map(({ id, name }) => [id, name])).toEqual([
    ["v3", "other"],
    ["v2", "data"],
  ]);
});

test("an id or a name that is there is not taken again", async () => {
  const { state } = await opened();
  await state.volumes.add(volumeRecord("v1", "data"), nothing);
  const filled: ContentPaths[] = [];
  const fill = async (paths: ContentPaths) => void filled.push(paths);
  const refused = { code: "ALREADY_EXISTS", message: 'volume v1 ("data") is there already' };
  await expect(state.volumes.add(volumeRecord("v1", "new"), fill)).rejects.toMatchObject(refused);
  await expect(state.volumes.add(volumeRecord("v2", "data"), fill)).rejects.toMatchObject(refused);
  expect(filled).toEqual([]);
});

test("an id that is no name of a directory never gets near the disk", async () => {
  const { state, disk } = await opened();
  const before = disk.tree();
  for (const id of ["../v1", "", ".", "a/b"]) {
    await expect(state.volumes.add(volumeRecord(id, "data"), nothing)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(state.volumes.change(id, (record) => record)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await state.volumes.remove(id);
    expect(state.volumes.get(id)).toBeUndefined();
    expect(() => state.volumes.paths(id)).toThrow(/there is no volume/);
  }
  expect(disk.tree()).toEqual(before);
});

test("contents are made out of sight, and there is nothing of them when that fails", async () => {
  const { state, disk, life } = await opened();
  const empty = disk.tree();
  const seen: string[] = [];
  const failing = state.volumes.add(volumeRecord("v1", "data"), async ({ data, image }) => {
    seen.push(data, image);
    await life.files.write(image, Buffer.from("half"));
    expect(state.volumes.all()).toEqual([]);
    throw new Error("a fault of the filler");
  });
  await expect(failing).rejects.toThrow("a fault of the filler");
  expect(seen).toEqual([`${stateRoot}/making/v1/data`, `${stateRoot}/making/v1/image`]);
  expect(disk.tree()).toEqual(empty);
});

test("changes to one record come one after another, each on what the last one stored", async () => {
  const { state, disk } = await opened();
  await state.volumes.add(volumeRecord("v1", "data", { mutable: { n: "0" } }), nothing);
  const stored = await Promise.all(
    Array.from({ length: 20 }, () =>
      state.volumes.change("v1", (record) => ({ ...record, mutable: { n: `${Number(record.mutable["n"]) + 1}` } })),
    ),
  );
  expect(stored.map(({ mutable }) => mutable["n"])).toEqual(Array.from({ length: 20 }, (_, at) => `${at + 1}`));
  const last = volumeRecord("v1", "data", { mutable: { n: "20" } });
  expect(state.volumes.get("v1")).toEqual(last);
  expect(disk.tree().get(`${stateRoot}/volumes/v1/record.json`)).toBe(sealRecord("volume", last).file.toString());
});

test("a change that changes nothing writes nothing; one of the identity is refused; one of nothing is NOT_FOUND", async () => {
  const { state, life } = await opened();
  await state.volumes.add(volumeRecord("v1", "data"), nothing);
  const before = life.steps();
  expect(await state.volumes.change("v1", (record) => ({ ...record }))).toBe(state.volumes.get("v1"));
  for (const other of [{ id: "v2" }, { name: "other" }])
    await expect(state.volumes.change("v1", (record) => ({ ...record, ...other }))).rejects.toThrow(/another identity/);
  await expect(state.volumes.change("v2", (record) => record)).rejects.toMatchObject({
    code: "NOT_FOUND",
    message: "there is no volume v2",
  });
  const refusal = new DriverError("OUT_OF_RANGE", "no");
  const refuse = (): never => {
    throw refusal;
  };
  await expect(state.volumes.change("v1", refuse)).rejects.toBe(refusal);
  await expect(state.volumes.change("v1", (record) => ({ ...record, capacityBytes: -1n }))).rejects.toThrow(
    /not stored/,
  );
  expect(life.steps()).toBe(before);
  expect(state.volumes.get("v1")).toEqual(volumeRecord("v1", "data"));
});

test("a write that the disk does not confirm leaves a doubt: that record is refused, no other, until the disk says what it holds", async () => {
  const { state, life, disk } = await opened();
  await state.volumes.add(volumeRecord("v1", "data"), nothing);
  await state.volumes.add(volumeRecord("v2", "other"), nothing);
  const label = (text: string) => state.volumes.change("v1", (record) => ({ ...record, mutable: { text } }));
  // The last step of a change is the sync of its directory; all fails from there on.
  const start = life.steps();
  await label("x");
  const change = life.steps() - start;
  life.faultAt(life.steps() + change, { error: "EIO" }, 1000);
  await expect(label("y")).rejects.toMatchObject({
    code: "INTERNAL",
    message: expect.stringMatching(/^cannot store the record of volume v1 \("data"\) in \/state\/volumes\/v1: EIO/),
  });
  const refused =
    /volume v1 \("data"\): the disk of \/state did not confirm the last write of its record \(EIO: .*repeat the call/;
  expect(() => state.volumes.get("v1")).toThrow(refused);
  await tick();
  expect(() => state.volumes.byName("data")).toThrow(refused);
  await expect(label("z")).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await expect(state.volumes.remove("v1")).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(state.volumes.get("v2")?.name).toBe("other");
  expect(state.volumes.byName("other")?.id).toBe("v2");
  // A disk that fails is asked once for each call, and never by itself.
  const asked = life.steps();
  for (let n = 0; n < 5; n += 1) await tick();
  expect(life.steps()).toBe(asked);

  life.faultAt(0, { error: "EIO" }, 0);
  expect(() => state.volumes.get("v1")).toThrow(refused);
  await tick();
  expect(state.volumes.get("v1")?.mutable).toEqual({ text: "y" });
  // And what is told now is what a loss of power would leave.
  const next = await stateOnDisk(disk.begin({ survives: () => false }));
  expect(next.state.volumes.get("v1")?.mutable).toEqual({ text: "y" });
});

test("a volume of which the disk does not say whether it came or went keeps its name until it does", async () => {
  const { state, life, disk } = await opened();
  const add = (id: string) => state.volumes.add(volumeRecord(id, "data"), nothing);
  const start = life.steps();
  await state.volumes.add(volumeRecord("v0", "first"), nothing);
  const adding = life.steps() - start;
  // The sync of volumes/ after the rename, and what follows.
  life.faultAt(life.steps() + adding - 1, { error: "EIO" }, 1000);
  await expect(add("v1")).rejects.toMatchObject({ code: "INTERNAL" });
  expect(() => state.volumes.byName("data")).toThrow(/did not confirm/);
  await expect(add("v2")).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(state.volumes.all().map(({ id }) => id)).toEqual(["v0"]);
  life.faultAt(0, { error: "EIO" }, 0);
  await expect(add("v2")).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await tick();
  expect(state.volumes.byName("data")?.id).toBe("v1");

  // Gone: the rename, then the two syncs.
  life.faultAt(life.steps() + 2, { error: "EIO" }, 1000);
  await expect(state.volumes.remove("v1")).rejects.toMatchObject({ code: "INTERNAL" });
  expect(() => state.volumes.get("v1")).toThrow(/did not confirm/);
  life.faultAt(0, { error: "EIO" }, 0);
  expect(() => state.volumes.get("v1")).toThrow(/did not confirm/);
  await tick();
  expect(state.volumes.get("v1")).toBeUndefined();
  expect(state.volumes.byName("data")).toBeUndefined();
  await state.settled();
  expect([...disk.tree().keys()].filter((place) => /\/(trash|making)\//.test(place))).toEqual([]);
  const next = (await stateOnDisk(life)).state;
  expect(next.volumes.all().map(({ id }) => id)).toEqual(["v0"]);
});

test("two records of one name, as a restored backup makes them: each is there by its id, none by the name", async () => {
  const { state, disk } = await opened();
  await state.volumes.add(volumeRecord("v1", "data"), nothing);
  await state.volumes.add(volumeRecord("v2", "other"), nothing);
  disk.put(`${stateRoot}/volumes/v2/record.json`, sealRecord("volume", volumeRecord("v2", "data")).file);
  const next = (await stateOnDisk(disk.begin())).state;
  expect(next.volumes.get("v1")?.name).toBe("data");
  expect(next.volumes.get("v2")?.name).toBe("data");
  expect(() => next.volumes.byName("data")).toThrow(
    'several records of a volume bear the name "data": v1, v2; delete all but one of them by id',
  );
  await expect(next.volumes.add(volumeRecord("v3", "data"), nothing)).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
  });
  await next.volumes.remove("v1");
  expect(next.volumes.byName("data")?.id).toBe("v2");
});

test("closed: writes under way end first, later ones are refused, and what was being made goes away", async () => {
  const { state, disk } = await opened();
  await state.volumes.add(volumeRecord("v1", "data"), nothing);
  const change = state.volumes.change("v1", (record) => ({ ...record, mutable: { a: "b" } }));
  const { open, passed } = gate();
  const adding = state.volumes.add(volumeRecord("v2", "other"), () => passed);
  await tick();
  let closed = false;
  const closing = state.close().then(() => {
    closed = true;
  });
  await change;
  await tick();
  expect(closed).toBe(false);
  open();
  const stopping = { code: "UNAVAILABLE", message: expect.stringContaining("the driver is stopping") };
  await expect(adding).rejects.toMatchObject(stopping);
  await closing;
  await expect(state.volumes.change("v1", (record) => record)).rejects.toMatchObject(stopping);
  await expect(state.volumes.remove("v1")).rejects.toMatchObject(stopping);
  await expect(state.volumes.add(volumeRecord("v3", "third"), nothing)).rejects.toMatchObject(stopping);
  expect([...disk.tree().keys()].filter((place) => place.includes("/making/"))).toEqual([]);
  const next = (await stateOnDisk(disk.begin())).state;
  expect(next.volumes.all()).toEqual([volumeRecord("v1", "data", { mutable: { a: "b" } })]);
});

test("a deletion that fails is no failure of the caller: it is told, and tried again at the next start", async () => {
  const { state, life, disk, log } = await opened();
  await state.volumes.add(volumeRecord("v1", "data"), nothing);
  await state.volumes.remove("v1");
  life.faultAt(life.steps() + 1, { error: "EPERM" });
  await state.settled();
  expect(log.lines.filter(({ level }) => level === "warn").map(({ message, fields }) => [message, fields])).toEqual([
    [
      "could not be deleted: it is tried again at the next start",
      { directory: `${stateRoot}/trash/v1.0`, why: expect.stringMatching(/^EPERM/) },
    ],
  ]);
  const next = await stateOnDisk(disk.begin());
  expect(next.state.volumes.all()).toEqual([]);
  expect([...disk.tree().keys()].filter((place) => place.includes("/trash/"))).toEqual([]);
});

test("a start reads each record once: its cost grows with their number and with nothing else", async () => {
  const costOf = async (volumes: number) => {
    const { state, disk } = await opened();
    for (let at = 0; at < volumes; at += 1) await state.volumes.add(volumeRecord(`v${at}`, `name ${at}`), nothing);
    const life = disk.begin();
    await stateOnDisk(life);
    return life.steps();
  };
  const [none, one, many] = [await costOf(0), await costOf(1), await costOf(200)];
  expect(many - none).toBe(200 * (one - none));
  // List, read, sync.
  expect(one - none).toBe(3);
});
