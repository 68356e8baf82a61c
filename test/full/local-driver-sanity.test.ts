import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startLocalDriver } from "../harness/local-driver.ts";
import { detachLoopsUnder, loopsUnder } from "../harness/loop-files.ts";
import type { ManagedProcess } from "../harness/managed-process.ts";
import { buildCsiSanity, runCsiSanity } from "../support/csi-sanity.ts";
import { full } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: csi-sanity over the local driver mounts, which needs root");

const forImages = { mountOptions: "noatime", "label.tier": "fast" };
/** The limit, so that csi-sanity tries what lies beyond it. */
const attaching = { HOLDFAST_LOCAL_ATTACH: "1", HOLDFAST_LOCAL_MAX_VOLUMES: "8" };

/**
 * What csi-sanity skips and why that is right here. One that is not in the list fails the test, and so does one of the list that was not
 * skipped. One spec is pending in csi-sanity itself (ListVolumes, "pagination should detect volumes added between pages …").
 */
type Skips = readonly { readonly spec: RegExp; readonly because: string }[];

const withoutAttaching: Skips = [
  { spec: /› Controller(?:Unp|P)ublishVolume ›/, because: "attaching is switched off" },
  {
    spec: /› volume lifecycle ›.*UnpublishVolume not supported/,
    because: "its way leads over ControllerPublishVolume",
  },
];

interface Case {
  readonly name: string;
  readonly accessType: "mount" | "block";
  readonly env: Readonly<Record<string, string>>;
  readonly mutableParameters?: Readonly<Record<string, string>>;
  readonly bytes?: { readonly made: number; readonly expanded: number };
  readonly skips?: Skips;
}

const cases: readonly Case[] = [
  { name: "images with ext4", accessType: "mount", env: attaching },
  {
    name: "images with xfs",
    accessType: "mount",
    env: { ...attaching, HOLDFAST_LOCAL_DEFAULT_FS: "xfs" },
    bytes: { made: 320 << 20, expanded: 400 << 20 },
  },
  {
    name: "directories",
    accessType: "mount",
    env: { ...attaching, HOLDFAST_LOCAL_DEFAULT_TYPE: "directory" },
    // A directory takes no mount options.
    mutableParameters: { "label.tier": "fast" },
  },
  { name: "raw block", accessType: "block", env: attaching },
  { name: "images with ext4, nothing attached", accessType: "mount", env: {}, skips: withoutAttaching },
];

describe.runIf(full && root)("csi-sanity over the local driver", () => {
  let binary: string;
  let dir: string;
  let driver: ManagedProcess | undefined;

  beforeAll(async () => {
    binary = await buildCsiSanity();
  }, 600_000);

  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-ls-"));
  });

  afterEach(async () => {
    await driver?.kill("SIGTERM");
    driver = undefined;
    await detachLoopsUnder(dir);
    await rm(dir, { recursive: true, force: true });
  });

  const leftovers = async (): Promise<readonly string[]> => {
    const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").filter((line) => line.includes(dir));
    const loops = (await loopsUnder(dir)).map(({ device, file }) => `${device} ${file}`);
    const folders = ["volumes", "snapshots", "groups", "making", "trash"];
    const files = await Promise.all(
      folders.map(async (folder) =>
        (await readdir(path.join(dir, "state", folder))).map((name) => `${folder}/${name}`),
      ),
    );
    return [...mounts, ...loops, ...files.flat()];
  };

  test.each(cases)(
    "$name: nothing fails, nothing is left",
    async ({ name, env, skips = [], mutableParameters = forImages, ...how }) => {
      const socket = path.join(dir, "csi.sock");
      driver = await startLocalDriver({ sockets: [socket], stateDir: path.join(dir, "state"), nodeId: "node-a", env });
      const result = await runCsiSanity(binary, { dir, socket, mutableParameters, ...how });
      console.log(`csi-sanity, ${name}: ${result.ran}; ${result.passed} passed, ${result.failed.length} failed`);
      for (const skipped of result.skipped) console.log(`  skipped: ${skipped}`);
      for (const pending of result.pending) console.log(`  pending upstream: ${pending}`);
      expect(result.failed).toEqual([]);
      expect(result.passed).toBeGreaterThan(80);
      expect(result.skipped.filter((one) => !skips.some(({ spec }) => spec.test(one)))).toEqual([]);
      expect(skips.filter(({ spec }) => !result.skipped.some((one) => spec.test(one)))).toEqual([]);
      await expect.poll(leftovers, { timeout: 10_000 }).toEqual([]);
    },
    300_000,
  );
});
