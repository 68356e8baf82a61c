import { describe, expect, it } from "vitest";
import { type AttachProfile, checkAttachProfile, maxVolumesOn, poolLimitOn } from "./attach-profile.ts";

describe("what a profile says of attachments", () => {
  it("says how many volumes a node takes by the first class that fits it, or by the number for all", () => {
    const nodeClasses = [
      { nodes: "gpu-7", topology: {}, maxVolumes: 0, attachPoolLimit: 0 },
      { nodes: "gpu-*", topology: { "example.com/type": "large" }, maxVolumes: 39, attachPoolLimit: 40 },
      { nodes: "gpu-*", topology: {}, maxVolumes: 27, attachPoolLimit: 0 },
      { nodes: "", topology: { "Example.com/Type": "small" }, maxVolumes: 3, attachPoolLimit: 5 },
    ];
    const profile = { maxVolumesPerNode: 9, nodeClasses, attachPool: "shared", attachPoolLimit: 28 };
    const on = (node: string, type: string) => maxVolumesOn(profile, node, { "example.com/type": type });
    const pool = (node: string, type: string) => poolLimitOn(profile, node, { "example.com/type": type });
    expect([on("gpu-7", "large"), on("gpu-1", "large"), on("gpu-1", "small"), on("web-1", "small")]).toEqual([
      0, 39, 27, 3,
    ]);
    expect([on("web-1", "large"), on("gpu", "large")]).toEqual([9, 9]);
    // A class that says nothing of the pool leaves its limit as it is for all nodes.
    expect([pool("gpu-7", "large"), pool("gpu-1", "large"), pool("gpu-1", "small"), pool("web-1", "small")]).toEqual([
      28, 40, 28, 5,
    ]);
    expect(pool("web-1", "large")).toBe(28);
  });

  it("has a limit with a pool, a pool with a limit, and a name for it", () => {
    const none = { maxVolumesPerNode: 0, nodeClasses: [], attachPool: "", attachPoolLimit: 0 };
    const wrong = (change: Partial<AttachProfile>) =>
      checkAttachProfile({ ...none, ...change }).map(({ field }) => field);
    const nodeClasses = [{ nodes: "gpu-*", topology: {}, maxVolumes: 0, attachPoolLimit: 3 }];
    expect(wrong({})).toEqual([]);
    expect(wrong({ attachPool: "nitro", attachPoolLimit: 28, nodeClasses })).toEqual([]);
    expect(wrong({ attachPool: "nitro" })).toEqual(["profile.attach_pool_limit"]);
    expect(wrong({ attachPool: "nitro", attachPoolLimit: 65_537 })).toEqual(["profile.attach_pool_limit"]);
    expect(wrong({ attachPool: "a/b", attachPoolLimit: 1 })).toEqual(["profile.attach_pool"]);
    expect(wrong({ attachPoolLimit: 28, nodeClasses })).toEqual([
      "profile.attach_pool_limit",
      "profile.node_classes[0].attach_pool_limit",
    ]);
  });
});
