import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const repo = path.resolve(import.meta.dirname, "../..");
let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-huge-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** The time only ends a command that would never end. */
const holdfast = (...args: readonly string[]) =>
  spawnSync(process.execPath, [path.join(repo, "packages/cli/bin/holdfast.mjs"), ...args], {
    encoding: "utf8",
    timeout: 12_000,
    killSignal: "SIGKILL",
  });

test("security f: a spec of 300,000 labels and a file without an end do not hold the command line", () => {
  const spec = path.join(dir, "huge.yaml");
  const labels = Array.from({ length: 300_000 }, (_, i) => `  k${i}: v\n`).join("");
  writeFileSync(spec, `id: a\nlabels:\n${labels}`);
  expect(holdfast("volume", "create", spec)).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/huge\.yaml is larger than 1048576 bytes.*BAD_SPEC/),
  });
  const endless = holdfast("volume", "create", "/dev/zero");
  expect(endless).toMatchObject({ status: 2, stderr: expect.stringMatching(/is larger than \d+ bytes.*NO_SPEC/) });
});
