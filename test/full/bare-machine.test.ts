/**
 * The two commands of README.md on a machine that has nothing but Node 20 and npm: what is missing is found, named and installed, and the
 * first installation says how far it is. HOLDFAST_BARE_WHOLE=1 runs all of `npm test` there, which takes as long as it does elsewhere.
 */
import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { full } from "../support/full.ts";
import { type BareRoot, createBareRoot } from "./bare-root.ts";

const repo = path.resolve(import.meta.dirname, "../..");
const root = process.getuid?.() === 0;
const whole = process.env["HOLDFAST_BARE_WHOLE"] === "1";
const debootstrap = spawnSync("debootstrap", ["--version"]).status === 0;
if (full && !(root && debootstrap))
  console.warn(`SKIPPED: a bare Debian needs ${root ? "debootstrap (apt-get install debootstrap)" : "root"}`);

/** Of each kind: pure, with sockets, with a store, with processes and mounts, with certificates of openssl. */
const some = [
  "packages/model",
  "packages/shared/src/lock",
  "packages/shared/src/trust/authority.test.ts",
  "services/controller/src/store/redis/redis-store.test.ts",
  "packages/local-driver/src/host/images.test.ts",
  "test/support/host-path-driver.test.ts",
  "test/start-failures.test.ts",
  "test/e2e/nomad-volumes.e2e.test.ts",
  "test/e2e/disturbed.e2e.test.ts",
];

describe.runIf(full && root && debootstrap)("README.md on a bare machine", () => {
  let machine: BareRoot;
  beforeAll(async () => {
    machine = await createBareRoot(repo);
  }, 900_000);
  afterAll(async () => {
    expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(machine?.dir ?? "hf-bare-");
    await machine?.remove();
  }, 300_000);

  test("a user who may not install is told what to install, after the packages of npm", async () => {
    const { code, output } = await machine.run("npm run demo", "nobody");
    expect(code, output).toBe(1);
    expect(output).toMatch(/holdfast: npm ci: \d+ of \d+ packages, \d+ s/);
    expect(output).toMatch(
      /missing: libatomic\.so\.1 \(Node 26 is linked with it\).*\n?.*as root: apt-get install libatomic1;/,
    );
    expect(output).not.toContain("    at ");
  }, 1_200_000);

  test("npm run demo passes as root, and says what it installs", async () => {
    const { code, output } = await machine.run("npm run demo");
    expect(code, output).toBe(0);
    expect(output).toContain("holdfast: installing libatomic1 from Debian: libatomic.so.1 (Node 26 is linked with it)");
    expect(output).toContain("deleted both volumes and the snapshot");
    expect(output).toContain("Cleaned up: no process, mount, loop device or file is left.");
    expect(output).not.toContain("SKIPPED");
  }, 1_200_000);

  test(
    `npm test passes; ${whole ? "all of it" : "some files of each kind"}`,
    async () => {
      const { code, output } = await machine.run(whole ? "npm test" : `npm test -- ${some.join(" ")}`);
      expect(code, output.slice(-20_000)).toBe(0);
      expect(output).toMatch(
        /holdfast: installing redis-tools, xfsprogs, openssl, xz-utils, curl, iproute2 from Debian: /,
      );
      expect(
        output
          .trimEnd()
          .split("\n")
          .findLast((line) => /passed/.test(line)),
      ).toMatch(/^\d+ passed, 0 failed, \d+ skipped$/);
    },
    whole ? 7_200_000 : 1_200_000,
  );
});
