import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { hasCredentials, writeCredentials } from "./credential-dir.ts";
import { readCredentialFiles } from "./credential-files.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-credentials-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

const files = (n: number) => ({ chain: [`leaf ${n};`, `issuing ${n}`], key: `key ${n}`, roots: [`root ${n}`] });
const read = (n: number) => [`leaf ${n};issuing ${n}`, `key ${n}`, `root ${n}`];
const generations = () => readdirSync(dir).filter((name) => name.startsWith(".generation-"));

test("what was written is read, and the key is its owner's alone", () => {
  const made = path.join(dir, "new/deep");
  expect(hasCredentials(made)).toBe(false);
  writeCredentials(made, files(1));
  expect(readCredentialFiles(made).contents).toEqual(read(1));
  expect(hasCredentials(made)).toBe(true);
  expect(["tls.key", "tls.crt", "ca.crt"].map((name) => statSync(path.join(made, name)).mode & 0o777)).toEqual([
    0o600, 0o644, 0o644,
  ]);
});

test("[CD1] the three change by one rename, and no key of before is left", () => {
  writeCredentials(dir, files(1));
  // A reader that holds the old generation goes on reading it while the new one is written beside it.
  const before = readlinkSync(path.join(dir, ".current"));
  writeCredentials(dir, files(2));
  expect(readCredentialFiles(dir).contents).toEqual(read(2));
  expect(generations()).toEqual([readlinkSync(path.join(dir, ".current"))]);
  expect(existsSync(path.join(dir, before))).toBe(false);
});

test("[CD1] a writer that died on the way leaves what was there", () => {
  writeCredentials(dir, files(1));
  mkdirSync(path.join(dir, ".generation-half"));
  writeFileSync(path.join(dir, ".generation-half/tls.key"), "key 2");
  symlinkSync(".generation-half", path.join(dir, ".current.new"));
  expect(readCredentialFiles(dir).contents).toEqual(read(1));
  writeCredentials(dir, files(3));
  expect(readCredentialFiles(dir).contents).toEqual(read(3));
});

test("[CD3] files of another program are taken over, and change at once too", () => {
  for (const [name, text] of Object.entries({ "tls.crt": "c", "tls.key": "k", "ca.crt": "a" }))
    writeFileSync(path.join(dir, name), text, { mode: 0o644 });
  writeCredentials(dir, files(1));
  expect(readCredentialFiles(dir).contents).toEqual(read(1));
  expect(readlinkSync(path.join(dir, "tls.key"))).toBe(".current/tls.key");
  expect(generations()).toHaveLength(1);
  expect(readFileSync(path.join(dir, "tls.key"), "utf8")).toBe("key 1");
});

test("a directory without one of the three has no credentials to read, but something to lose", () => {
  writeFileSync(path.join(dir, "tls.crt"), "c");
  expect(readCredentialFiles(dir).contents).toHaveProperty("wrong");
  expect(hasCredentials(dir)).toBe(true);
});
