import fc from "fast-check";
import { expect, test } from "vitest";
import { DriverError } from "../domain/driver-error.ts";
import type { VolumeRecord } from "../domain/records.ts";
import { createMemoryDisk, type DiskFault, type DiskLife, type MemoryDisk } from "../testing/memory-disk.ts";
import { Killed } from "../testing/memory-faults.ts";
import { stateOnDisk, stateRoot, volumeRecord } from "../testing/state-on-disk.ts";
import { sumOf } from "./layout.ts";
import type { OpenState } from "./open-state.ts";
import { sealRecord } from "./record-codec.ts";

/** `name` is one of few, so that they meet. */
type Op =
  | { readonly do: "add"; readonly name: string }
  | { readonly do: "change"; readonly name: string; readonly label: string }
  | { readonly do: "remove"; readonly name: string };

/** name → label */
type Model = ReadonlyMap<string, string>;

const steps: readonly Op[] = [
  { do: "add", name: "a" },
  { do: "add", name: "b" },
  { do: "change", name: "a", label: "1" },
  { do: "change", name: "a", label: "2" },
  { do: "remove", name: "b" },
  { do: "add", name: "b" },
  { do: "change", name: "b", label: "3" },
  { do: "remove", name: "a" },
];

/** Each operation is the last one once: nothing later makes up for what it left undone. */
const prefixes: readonly (readonly Op[])[] = steps.map((_, at) => steps.slice(0, at + 1));

const after = (model: Model, op: Op): Model => {
  const next = new Map(model);
  if (op.do === "remove") next.delete(op.name);
  else if (op.do === "add") next.set(op.name, next.get(op.name) ?? "");
  else if (next.has(op.name)) next.set(op.name, op.label);
  return next;
};

/** As operations do it: looked up by name first, so that each may be repeated. */
async function act({ volumes }: OpenState, files: DiskLife["files"], op: Op, newId: () => string): Promise<void> {
  const found = volumes.byName(op.name);
  if (op.do === "add" && found === undefined) {
    const id = newId();
    await volumes.add(volumeRecord(id, op.name), ({ image }) => files.write(image, Buffer.from(`contents of ${id}`)));
  }
  if (op.do === "change" && found !== undefined)
    await volumes.change(found.id, (record) => ({ ...record, mutable: { label: op.label } }));
  if (op.do === "remove" && found !== undefined) await volumes.remove(found.id);
}

const modelOf = (volumes: readonly VolumeRecord[]): Model =>
  new Map(volumes.map(({ name, mutable }) => [name, mutable["label"] ?? ""]));

/** Exactly this is on the disk, and nothing else. */
function expectTree(disk: MemoryDisk, { volumes }: OpenState): void {
  const expected = new Map<string, string | undefined>([
    [stateRoot, undefined],
    [`${stateRoot}/format.json`, '{"layout":1}\n'],
  ]);
  for (const place of ["volumes", "snapshots", "groups", "making", "trash"])
    expected.set(`${stateRoot}/${place}`, undefined);
  for (const record of volumes.all()) {
    const at = `${stateRoot}/volumes/${record.id}`;
    expected.set(at, undefined);
    expected.set(`${at}/image`, `contents of ${record.id}`);
    expected.set(`${at}/name-${sumOf(record.name)}`, "");
    expected.set(`${at}/record.json`, sealRecord("volume", record).file.toString("utf8"));
  }
  const sorted = (tree: ReadonlyMap<string, string | undefined>) => [...tree].sort(([a], [b]) => (a < b ? -1 : 1));
  expect(sorted(disk.tree())).toEqual(sorted(expected));
}

type Power = { readonly survives: () => boolean } | undefined;

/** Runs the operations, one killed at this step, then again from the one that was under way. Answers how many steps there were. */
async function survive(ops: readonly Op[], killAt: number, power: Power): Promise<number> {
  const disk = createMemoryDisk();
  let ids = 0;
  const newId = () => `id-${ids++}`;
  let model: Model = new Map();
  let life = disk.begin();
  life.faultAt(killAt, "kill");
  let opened: OpenState | undefined;
  const restart = async () => {
    life = disk.begin(power);
    opened = (await stateOnDisk(life)).state;
    expect(opened.broken).toEqual([]);
    expectTree(disk, opened);
  };
  const orKilled = (error: unknown) => {
    expect(error).toBeInstanceOf(Killed);
    return "killed" as const;
  };
  opened = await stateOnDisk(life).then(
    ({ state }) => state,
    (error: unknown) => void orKilled(error),
  );
  if (opened === undefined) await restart();
  for (const op of ops) {
    if (opened === undefined) throw new Error("not open");
    const ended = await act(opened, life.files, op, newId).catch(orKilled);
    if (ended === "killed") {
      await restart();
      // Not yet, or already: nothing between, and all that was told before.
      expect([model, after(model, op)]).toContainEqual(modelOf(opened.volumes.all()));
      await act(opened, life.files, op, newId);
    }
    model = after(model, op);
    expect(modelOf(opened.volumes.all())).toEqual(model);
  }
  await opened?.settled();
  const total = life.steps();
  // And once more with the worst loss of power: all that was told is there.
  life = disk.begin({ survives: () => false });
  const { state } = await stateOnDisk(life);
  expect(modelOf(state.volumes.all())).toEqual(model);
  expect(state.broken).toEqual([]);
  expectTree(disk, state);
  return total;
}

/** The same chances for the same seed. */
function chances(seed: number): { readonly survives: () => boolean } {
  let at = seed;
  return {
    survives: () => {
      at = (Math.imul(at, 1_103_515_245) + 12_345) & 0x7fffffff;
      return ((at >> 16) & 1) === 1;
    },
  };
}

/** At each step of each operation, with that operation as the last, and at some before: a fault may last. */
async function atStepsOf(
  count: (ops: readonly Op[]) => Promise<number>,
  go: (ops: readonly Op[], step: number) => Promise<unknown>,
): Promise<void> {
  let before = 0;
  for (const ops of prefixes) {
    const total = await count(ops);
    for (let step = Math.max(1, before - 8); step <= total + 1; step += 1) await go(ops, step);
    before = total;
  }
}

test.each<[string, (seed: number) => Power]>([
  ["the process is killed", () => undefined],
  ["the power is lost and nothing survives that was not synced", () => ({ survives: () => false })],
  ["the power is lost and everything survives", () => ({ survives: () => true })],
  ["the power is lost and some survives (1)", (seed) => chances(seed)],
  ["the power is lost and some survives (2)", (seed) => chances(seed * 7919 + 1)],
])("at every step: %s", async (_what, power) => {
  expect(await survive(steps, 0, undefined)).toBeGreaterThan(90);
  await atStepsOf(
    (ops) => survive(ops, 0, undefined),
    (ops, step) => survive(ops, step, power(step)),
  );
});

const someOp: fc.Arbitrary<Op> = fc.record({
  do: fc.constantFrom("add", "change", "remove"),
  name: fc.constantFrom("a", "b", "c"),
  label: fc.constantFrom("x", "y", '\u{1F6E2}\n"', "__proto__"),
}) as fc.Arbitrary<Op>;

test("any operations, killed anywhere, with and without a loss of power", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(someOp, { maxLength: 12 }),
      fc.nat(260),
      fc.option(fc.nat()),
      async (ops, killAt, seed) => void (await survive(ops, killAt, seed === null ? undefined : chances(seed))),
    ),
    { numRuns: 300 },
  );
});

/** Runs the operations with a disk that fails, each again until it is done; gives up on none. */
async function endure(ops: readonly Op[], failAt: number, fault: DiskFault, times: number): Promise<number> {
  const disk = createMemoryDisk();
  let ids = 0;
  const life = disk.begin();
  const { state, log } = await stateOnDisk(life);
  const before = life.steps();
  if (failAt > 0) life.faultAt(before + failAt, fault, times);
  let model: Model = new Map();
  for (const op of ops) {
    for (let tries = 0; ; tries += 1) {
      expect(tries).toBeLessThan(times + 2);
      const failed = await act(state, life.files, op, () => `id-${ids++}`).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (failed === undefined) break;
      if (!(failed instanceof DriverError)) throw failed;
      expect(["RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "ABORTED"]).toContain(failed.code);
      // A doubt is being settled; nothing but the operation under way may have moved.
      await new Promise((resolve) => setImmediate(resolve));
      const told = [...modelOf(state.volumes.all())].filter(([name]) => name !== op.name);
      expect(told).toEqual([...model].filter(([name]) => name !== op.name));
    }
    model = after(model, op);
    expect(modelOf(state.volumes.all())).toEqual(model);
  }
  await state.settled();
  const total = life.steps() - before;
  // Nothing half-done is left either, unless deleting it was what failed, and that is told.
  if (log.lines.every(({ level }) => level !== "warn") && times === 1) expectTree(disk, state);
  const next = (await stateOnDisk(disk.begin({ survives: () => false }))).state;
  expect(modelOf(next.volumes.all())).toEqual(model);
  expect(next.broken).toEqual([]);
  expectTree(disk, next);
  return total;
}

test.each<[string, DiskFault, number]>([
  ["no space, once", { error: "ENOSPC" }, 1],
  ["no space, for a while", { error: "ENOSPC" }, 9],
  ["an I/O error, once", { error: "EIO" }, 1],
  ["an I/O error, for a while", { error: "EIO" }, 9],
  ["done, and told as an I/O error", { late: "EIO" }, 1],
  ["done, and told as an I/O error, for a while", { late: "EIO" }, 5],
])("at every step: %s", async (_what, fault, times) => {
  expect(await endure(steps, 0, fault, times)).toBeGreaterThan(70);
  await atStepsOf(
    (ops) => endure(ops, 0, fault, times),
    (ops, step) => endure(ops, step, fault, times),
  );
});
