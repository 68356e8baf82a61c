import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
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

test("[I5] no two lives speak under one name, also when the directory was lost and counting began anew", async () => {
  const first = await start("named");
  expect(first.issuer).toMatch(/^named\/1-/);
  await stop();
  await rm(directory, { recursive: true });
  const second = await start("named");
  expect(second).toMatchObject({ id: "named", incarnation: 1 });
  expect(second.issuer).not.toBe(first.issuer);
});
