import { open, readdir, readFile } from "node:fs/promises";
import path from "node:path";
import type { Claim } from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { loopsUnder } from "../harness/loop-files.ts";
import {
  blockWriter,
  claimVolume,
  fileWriter,
  makeVolume,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { canLoadSeccomp } from "../support/under-seccomp.ts";
import { capabilitiesOf, readUnit } from "../support/unit-rights.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: loop devices and real mounts need root");

const plugin = "local.holdfast.dev";
const kinds = [
  { id: "ext4", parameters: { type: "image", fsType: "ext4" }, bytes: 32n << 20n, mountedAs: "ext4" },
  { id: "xfs", parameters: { type: "image", fsType: "xfs" }, bytes: 320n << 20n, mountedAs: "xfs" },
  { id: "dir", parameters: { type: "directory" }, bytes: 1n << 20n, mountedAs: undefined },
  { id: "raw", parameters: { type: "image" }, bytes: 16n << 20n, mountedAs: "devtmpfs" },
] as const;

const isBlock = (id: string): boolean => id === "raw";
/** A file of the filesystem, or the device itself. */
const fileIn = (claim: Claim, id: string): string => (isBlock(id) ? claim.hostPath : path.join(claim.hostPath, "kept"));

const write = async (file: string, text: string): Promise<void> => {
  const handle = await open(file, file.endsWith("kept") ? "w" : "r+");
  try {
    await handle.write(text, 0);
    await handle.sync();
  } finally {
    await handle.close();
  }
};

const read = async (file: string, length: number): Promise<string> => {
  const handle = await open(file, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
};

const capabilitiesHeld = async (pid: number): Promise<number> => {
  const mask = /^CapEff:\t(\w+)$/m.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
  return BigInt(`0x${mask}`).toString(2).replaceAll("0", "").length;
};

const isFiltered = async (pid: number): Promise<boolean> =>
  /^Seccomp:\t2$/m.test(await readFile(`/proc/${pid}/status`, "utf8"));

const mountsAt = async (place: string): Promise<readonly string[]> =>
  (await readFile("/proc/self/mountinfo", "utf8"))
    .split("\n")
    .filter((line) => line.split(" ")[4] === place)
    .map((line) => line.split(" - ")[1]?.split(" ")[0] ?? "");

describe.skipIf(!root)("a volume of the local driver outlives its agent, its driver and its workload", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a"],
      localDriver: { HOLDFAST_LOCAL_ATTACH: "1" },
      rightsOfUnits: true,
    });
  });
  afterAll(() => cluster?.stop());

  it("each service has no capability but those of its unit, and controller and agent the filter of their containers", async () => {
    const units = ["controller", "node-agent", "local-driver"] as const;
    const started = [cluster.controller(), cluster.node("node-a").agent(), cluster.driver()];
    const held = await Promise.all(started.map(({ pid }) => capabilitiesHeld(pid)));
    // The machine of the test may lack some of them itself.
    const own = await capabilitiesHeld(process.pid);
    for (const [nth, unit] of units.entries()) {
      expect(held[nth], unit).toBeLessThanOrEqual(capabilitiesOf(readUnit(unit)).length);
      expect(held[nth], unit).toBeLessThan(own);
    }
    const filtered = await Promise.all(started.map(({ pid }) => isFiltered(pid)));
    expect(filtered).toEqual([canLoadSeccomp, canLoadSeccomp, false]);
  });

  const killAgent = async (): Promise<void> => {
    const node = cluster.node("node-a");
    await node.agent().kill("SIGKILL");
    await node.startAgent();
  };

  const killDriver = async (): Promise<void> => {
    await cluster.driver().kill("SIGKILL");
    await cluster.startDriver();
  };

  const claim = async (id: string, workload: string): Promise<Claim> => {
    const got = await persistently("the claim", () => claimVolume(cluster, id, { workload }));
    expect(stateName(got)).toBe("ACTIVE");
    return got;
  };

  const release = async (workload: string): Promise<void> => {
    const over = await persistently("the release", async () => {
      const claims = await releaseWorkload(cluster, workload);
      if (claims.some((one) => stateName(one) !== "RELEASED")) throw new Error("not released yet");
      return claims;
    });
    expect(over).toHaveLength(1);
  };

  /** Everything of one volume that this machine can show. */
  const leftOf = async (): Promise<readonly string[]> => {
    const table = await readFile("/proc/self/mountinfo", "utf8");
    const mounts = table.split("\n").filter((line) => line.includes(` ${cluster.dir}/`));
    const loops = (await loopsUnder(cluster.dir)).map(({ file }) => file);
    const volumes = await readdir(path.join(cluster.dir, "local", "volumes"));
    return [...mounts, ...loops, ...volumes];
  };

  it.each(kinds)("$id: create, claim, write, release, claim again, read, delete", async (kind) => {
    const { id } = kind;
    const text = `written into ${id}`;
    const made = await makeVolume(cluster, id, isBlock(id) ? blockWriter : fileWriter, { plugin, ...kind });
    expect(volumeStateName(made)).toBe("AVAILABLE");

    const first = await claim(id, `one-${id}`);
    if (kind.mountedAs !== undefined) expect(await mountsAt(first.hostPath)).toEqual([kind.mountedAs]);
    await write(fileIn(first, id), text);

    // Mounts outlive both: what is in them is still there, and the release works as if nothing had been.
    await killAgent();
    expect(await read(fileIn(first, id), text.length)).toBe(text);
    await killDriver();
    await release(`one-${id}`);
    expect(await mountsAt(first.hostPath)).toEqual([]);
    expect(await loopsUnder(cluster.dir)).toEqual([]);

    await killAgent();
    const second = await claim(id, `two-${id}`);
    expect(await read(fileIn(second, id), text.length)).toBe(text);
    await release(`two-${id}`);

    await persistently("the deletion", () => removeVolume(cluster, id));
    await until(`nothing to be left of ${id}`, async () => (await leftOf()).length === 0);
  });
});
