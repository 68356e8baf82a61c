import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTrees } from "./trees.ts";

let directory: string;
const umask = process.umask();

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), "holdfast-trees-"));
});
afterEach(async () => {
  process.umask(umask);
  await rm(directory, { recursive: true, force: true });
});

test("the root of a new directory volume has its mode whatever the umask is", async () => {
  process.umask(0o077);
  const root = path.join(directory, "data");
  await createTrees().makeRoot(root);
  const made = await stat(root);
  expect([made.isDirectory(), made.mode & 0o7777]).toEqual([true, 0o755]);
});

test("what is there already is no new root, and a missing parent is named", async () => {
  const root = path.join(directory, "data");
  await writeFile(root, "");
  for (const wrong of [root, path.join(directory, "no", "data")])
    await expect(createTrees().makeRoot(wrong)).rejects.toMatchObject({
      code: "INTERNAL",
      message: expect.stringContaining(`cannot make the directory ${wrong}`),
    });
});
