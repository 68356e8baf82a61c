import { link, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { identityOf, identityOfFile } from "./file-identity.ts";

let home: string;
beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), "hf-identity-"));
});
afterEach(async () => {
  await rm(home, { recursive: true, force: true });
});

it("is one for every name of a file, another for another file, and none where there is no file", async () => {
  const [file, other] = [path.join(home, "file"), path.join(home, "other")];
  await writeFile(file, "");
  await writeFile(other, "");
  await link(file, path.join(home, "linked"));
  const identity = await identityOfFile(file);
  expect(identity).toMatch(/^\d+:\d+ \d+$/);
  expect(await identityOfFile(path.join(home, "linked"))).toBe(identity);
  expect(await identityOfFile(other)).not.toBe(identity);
  expect(await identityOfFile(path.join(home, "none"))).toBeUndefined();
  expect(await identityOfFile(path.join(file, "below"))).toBeUndefined();
});

it("has the numbers of the device as mountinfo and losetup have them, and an inode number of 64 bits", () => {
  expect(identityOf({ dev: 0x0012_3450_0067_89abn, ino: -2n })).toBe(`${0x12_3789}:${0x4500_06ab} ${2n ** 64n - 2n}`);
});
