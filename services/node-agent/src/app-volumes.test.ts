import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { AccessMode, UsageUnit } from "@holdfast/shared/gen/holdfast/v1/common";
import { describe, expect, test } from "vitest";
import { type AgentRig, isRoot, pluginName, startRig } from "./testing/agent-rig.ts";

const optionsAt = (at: string): readonly string[] => {
  const line = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .findLast((it) => it.split(" ")[4] === at);
  return line?.split(" ")[5]?.split(",") ?? [];
};
const reader = { accessMode: AccessMode.ACCESS_MODE_MULTI_NODE_READER_ONLY, readOnly: true } as const;
const subject = { namespace: "ns", volume: "vol-1", volumeUid: "uid-vol-1", externalId: "vol-1", plugin: pluginName };
const expandOf = (rig: AgentRig) => ({
  ...subject,
  node: "node-a",
  nodeEpoch: BigInt(rig.controller.nodeEpoch()),
  capacity: { requiredBytes: 16n << 20n },
});

describe.skipIf(!isRoot)("what a workload is given", () => {
  test("[O2] nosuid and nodev are there although the plugin was not asked for them", async () => {
    const rig = await startRig();
    await rig.start();
    const { published } = await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    const options = optionsAt(published?.hostPath ?? "");
    expect(options).toEqual(expect.arrayContaining(["rw", "nosuid", "nodev"]));
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    expect(rig.mountsBelowRoot()).toEqual([]);
  });

  test("[O2] a claim that reads cannot write, whatever its process is", async () => {
    const rig = await startRig();
    await rig.start();
    const { published } = await rig.publishUntilSettled({ uid: "a", ctr: 1, ...reader });
    const at = published?.hostPath ?? "";
    expect(optionsAt(at)).toEqual(expect.arrayContaining(["ro", "nosuid", "nodev"]));
    await expect(writeFile(path.join(at, "x"), "y")).rejects.toMatchObject({ code: "EROFS" });
  });

  test("a mode that only reads is read-only although nobody said so to the plugin", async () => {
    const rig = await startRig();
    await rig.start();
    const { published } = await rig.publishUntilSettled({ uid: "a", ctr: 1, ...reader, readOnly: false });
    await expect(writeFile(path.join(published?.hostPath ?? "", "x"), "y")).rejects.toMatchObject({ code: "EROFS" });
  });

  test("a device that only reads: the kernel says so", async () => {
    const rig = await startRig();
    await rig.start();
    const { published } = await rig.publishUntilSettled({ uid: "a", ctr: 1, block: true, ...reader });
    const { major, minor } = published?.device ?? {};
    expect(await readFile(`/sys/dev/block/${major}:${minor}/ro`, "utf8")).toBe("1\n");
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
  });

  test("[O1] an option that is not on the list ends the claim before the plugin hears of it", async () => {
    const rig = await startRig();
    await rig.start();
    const answer = await rig.publishUntilSettled({ uid: "a", ctr: 1, changes: { mountFlags: ["uid=0"] } });
    expect(answer.notMounted).toMatchObject({ reason: "MOUNT_OPTION_FORBIDDEN", csiMethod: "" });
    expect(rig.plugin.backend.record().filter(({ method }) => /Stage|Publish/.test(method))).toEqual([]);
    expect(rig.output()).not.toContain("uid=0");
  });
});

describe.skipIf(!isRoot)("figures over the wire", () => {
  test("a volume grows while it is published, and says what to do when it is not", async () => {
    const rig = await startRig();
    await rig.start();
    expect((await rig.agent.expand(expandOf(rig))).notExpanded?.reason).toBe("VOLUME_NOT_HERE");
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    expect((await rig.agent.expand(expandOf(rig))).expanded?.capacityBytes).toBe(16n << 20n);
    const stale = await rig.agent.expand({ ...expandOf(rig), nodeEpoch: 99n });
    expect(stale.refused?.nodeEpoch).toBe(BigInt(rig.controller.nodeEpoch()));
    await expect(rig.agent.expand({ ...expandOf(rig), node: "node-b" })).rejects.toMatchObject({
      reason: "NODE_MISMATCH",
    });
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    const owed = { expandTo: { requiredBytes: 16n << 20n } };
    const again = await rig.publishUntilSettled({ uid: "b", ctr: 2, changes: owed });
    expect(again.published?.expansion?.expanded?.capacityBytes).toBe(16n << 20n);
    expect(rig.plugin.backend.violations()).toEqual([]);
  });

  test("statistics of all that is published, and of what is asked for by name", async () => {
    const rig = await startRig();
    await rig.start();
    expect((await rig.agent.stats({})).volumes).toEqual([]);
    await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    const [all] = (await rig.agent.stats({})).volumes;
    expect(all).toMatchObject({ volumeUid: "uid-vol-1", measuredAt: expect.any(Date), error: undefined });
    expect(all?.usage.map(({ unit }) => unit)).toEqual([UsageUnit.USAGE_UNIT_BYTES, UsageUnit.USAGE_UNIT_INODES]);
    const { volumes } = await rig.agent.stats({ volumeUids: ["uid-other", "uid-vol-1"] });
    expect(volumes.map(({ volumeUid, error }) => [volumeUid, error?.reason])).toEqual([
      ["uid-other", "VOLUME_NOT_HERE"],
      ["uid-vol-1", undefined],
    ]);
    const many = { volumeUids: Array.from({ length: 501 }, (_, at) => `v${at}`) };
    await expect(rig.agent.stats(many)).rejects.toMatchObject({ reason: "INVALID_ARGUMENT" });
    expect(rig.plugin.backend.record().filter(({ method }) => method === "NodeGetVolumeStats")).toHaveLength(1);
  });
});

test.skipIf(!isRoot)(
  "a mount that somebody takes away is told to the controller, and its permit brings it back",
  async () => {
    const rig = await startRig();
    await rig.start({ HOLDFAST_MOUNT_CHECK_INTERVAL: "100ms" });
    const { published } = await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    const at = published?.hostPath ?? "";
    expect(spawnSync("umount", [at]).status).toBe(0);
    const lost = () => rig.controller.acknowledged.flatMap((request) => request.lost);
    await expect
      .poll(() => lost().map(({ claimUid, reason }) => [claimUid, reason]), { timeout: 5_000 })
      .toEqual([["a", "MOUNT_MISSING"]]);
    // What the mount stood on is closed: no workload writes to the host's own disk by mistake.
    expect((await stat(at)).mode & 0o777).toBe(0);
    const back = await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    expect(back.published?.hostPath).toBe(at);
    expect(rig.mountsBelowRoot()).toContain(at);
    await rig.releaseUntilSettled({ uid: "a", ctr: 1 });
    expect(rig.plugin.backend.violations()).toEqual([]);
  },
);
