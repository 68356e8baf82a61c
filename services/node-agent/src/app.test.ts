import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { isRoot, startRig } from "./testing/agent-rig.ts";

describe.skipIf(!isRoot)("an agent process with a real plugin and real mounts", () => {
  test("a file system comes, is written to, and goes", async () => {
    const rig = await startRig();
    await rig.start();
    const up = await rig.publishUntilSettled({ uid: "a", ctr: 1 });
    expect(up.published?.hostPath).toMatch(new RegExp(`^${rig.rootDir}/publish/[0-9a-f]{32}/[0-9a-f]{32}$`));
    expect(Number(up.published?.mountId)).toBeGreaterThan(0);
    expect(rig.mountsBelowRoot()).toHaveLength(2);
    expect((await rig.release({ uid: "a", ctr: 1 })).released?.epoch).toEqual({ gen: 1n, ctr: 1n });
    expect(rig.mountsBelowRoot()).toEqual([]);
    expect(rig.plugin.backend.violations()).toEqual([]);
    expect(await readFile(path.join(rig.stateDir, "journal"), "utf8")).toContain("released");
  });
});
