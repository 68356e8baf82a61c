import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openStateDir, type StateDir } from "./state-dir.ts";

let parent: string;
let directory: string;
const open: StateDir[] = [];
let uuids = 0;

beforeEach(async () => {
  parent = await mkdtemp(path.join(tmpdir(), "hf-state-"));
  directory = path.join(parent, "controller");
  uuids = 0;
});
afterEach(async () => {
  for (const one of open.splice(0)) one.release();
  await rm(parent, { recursive: true, force: true });
});

const start = async (id?: string): Promise<StateDir> => {
  const made = await openStateDir(directory, {
    id,
    uuid: () => {
      uuids += 1;
      return `uuid-${uuids}`;
    },
  });
  open.push(made);
  return made;
};

const stop = async (): Promise<void> => open.pop()?.release();

test("a controller keeps its id, and every start has its own number", async () => {
  expect(await start()).toMatchObject({ id: "uuid-1", incarnation: 1 });
  await stop();
  expect(await start()).toMatchObject({ id: "uuid-1", incarnation: 2 });
  await stop();
  expect(await start("named")).toMatchObject({ id: "named", incarnation: 3 });
  expect((await stat(directory)).mode & 0o777).toBe(0o700);
});

test("one controller has it at a time; the lock ends with it", async () => {
  await start();
  await expect(start()).rejects.toMatchObject({
    reason: "STATE_DIR_IN_USE",
    message: expect.stringContaining(directory),
  });
  expect(await readFile(path.join(directory, "incarnation"), "utf8"), "the second start counted nothing").toBe("1\n");
  await stop();
  expect(await start()).toMatchObject({ incarnation: 2 });
});

test("the installation is remembered", async () => {
  const first = await start();
  expect(first.lineage.read()).toBeUndefined();
  first.lineage.remember("cluster-1");
  await stop();
  expect((await start()).lineage.read()).toBe("cluster-1");
  expect((await readdir(directory)).filter((name) => name.endsWith(".new"))).toEqual([]);
});

test("the vettings that were seen are remembered, and the highest generation of them", async () => {
  const first = await start();
  expect(first.lineage.generation()).toBe(0);
  for (const [gen, uid] of [
    [2, "v2"],
    [5, "v5"],
    [4, "v4"],
  ] as const)
    first.lineage.saw({ gen, uid });
  await stop();
  const { lineage } = await start();
  expect([lineage.generation(), lineage.knows("v4"), lineage.knows("v6")]).toEqual([5, true, false]);
});

test("[I5] no two lives speak under one name, also when the directory was lost and counting began anew", async () => {
  const first = await start("named");
  expect(first.issuer).toMatch(/^named\/1-/);
  await stop();
  await rm(directory, { recursive: true });
  const second = await start("named");
  expect(second).toMatchObject({ id: "named", incarnation: 1 });
  expect(second.issuer).not.toBe(first.issuer);
});

test.each([
  ["was put back from a copy", "1\n"],
  ["was lost", ""],
])("[I5] D4 no two lives speak under one name, also when the count of starts %s in place", async (_what, count) => {
  const lives = [await start("named")];
  await stop();
  lives.push(await start("named"));
  await stop();
  await writeFile(path.join(directory, "incarnation"), count);
  const now = await start("named");
  const before = lives.find(({ incarnation }) => incarnation === now.incarnation);
  expect(before).toBeDefined();
  expect(now.issuer).not.toBe(before?.issuer);
  expect(now.isFormerLife(before?.issuer ?? ""), "nothing tells that it came before").toBe(false);
});

describe("a life of this directory that is over", () => {
  test("is any earlier one of the same controller on the same boot, and neither this one nor another controller's", async () => {
    const first = await start("named");
    await stop();
    const second = await start("named");
    expect(second.isFormerLife(first.issuer)).toBe(true);
    expect(second.isFormerLife(first.issuer.replace(/\.[^.]*$/, "")), "as earlier versions wrote it").toBe(true);
    expect(second.isFormerLife(second.issuer)).toBe(false);
    expect(second.isFormerLife(first.issuer.replace("named", "other"))).toBe(false);
    expect(second.isFormerLife(first.issuer.replace("/1-", "/3-"))).toBe(false);
  });

  test.each([
    ["another boot", (line: string) => line.replace(/^\S+/, "another-boot")],
    ["a copy of the directory", (line: string) => line.replace(/ \d+:(\d+) /, " 1:$1 ")],
    ["a line that nobody can read", () => "?"],
  ])("[I5] is not known to be over after %s", async (_what, change) => {
    const first = await start("named");
    await stop();
    const file = path.join(directory, "line");
    await writeFile(file, change(await readFile(file, "utf8")));
    expect((await start("named")).isFormerLife(first.issuer)).toBe(false);
  });
});
