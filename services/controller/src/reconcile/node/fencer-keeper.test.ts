import { createManualClock, type ManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { beforeEach, describe, expect, it } from "vitest";
import type { FencerAnswer } from "../../domain/node/fencer.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import { claimRecord, nodeRecord, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import type { NodeView } from "../../ports.ts";
import { createFencerKeeper, type FencerKeeper, type FencerKeeperDeps } from "./fencer-keeper.ts";

const silent = (name: string, change: Partial<NodeRecord> = {}): NodeView => ({
  record: nodeRecord(name, { linkLost: { at: 1 }, ...change }),
  live: "suspect",
  linked: false,
});
const heard = (name: string): NodeView => ({ record: nodeRecord(name), live: "alive", linked: true });
const policyOf = (nodeLoss: "wait" | "fence") => ({ ...volumeRecord().policy, nodeLoss });
const volume = (id: string, nodeLoss: "wait" | "fence", node = "n1") =>
  volumeRecord([claimRecord(`c-${id}`, { node, state: "ACTIVE", epoch: { gen: 1, ctr: 1 } })], [], {
    id,
    policy: policyOf(nodeLoss),
  });

let clock: ManualClock;
let views: Map<string, NodeView>;
let volumes: ReturnType<typeof volume>[];
let answer: FencerAnswer;
let asked: unknown[];
let fenced: unknown[];
let open: boolean;
let atOnce: number;
let most: number;
let keeper: FencerKeeper;
/** What happens while the fencer is asked. */
let during: () => void;
let hear: (node: string) => void;

beforeEach(() => {
  clock = createManualClock();
  views = new Map([silent("n1"), heard("n2")].map((view) => [view.record.name, view]));
  volumes = [volume("data", "fence")];
  answer = { kind: "fenced", evidence: "PDU 3 is off" };
  [asked, fenced, open, atOnce, most] = [[], [], true, 0, 0];
  during = () => undefined;
  keeper = createFencerKeeper({
    fencer: {
      async ask(life: unknown) {
        asked.push(life);
        atOnce += 1;
        most = Math.max(most, atOnce);
        await clock.sleep(10, new AbortController().signal);
        atOnce -= 1;
        during();
        return answer;
      },
    },
    nodes: {
      get: (name: string) => views.get(name),
      list: () => [...views.values()],
      onChange: (listener: (node: string) => void) => {
        hear = listener;
      },
    },
    records: {
      list: async (_index: string, node: string) => ({
        volumes: volumes
          .filter(({ claims }) => Object.values(claims).some((claim) => claim.node === node))
          .map((one) => ({ volume: one, rev: 1 })),
        next: undefined,
      }),
    },
    gate: { state: () => ({ open, vetting: { gen: 1, uid: "vetting-1" }, reason: "" }) },
    async fence({ name, nodeEpoch }: NodeRecord, evidence: string) {
      fenced.push([name, nodeEpoch, evidence]);
      views.set(name, silent(name, { state: "FENCING" }));
    },
    afterMs: 60_000,
    clock,
    random: () => 1,
    log: createMemoryLogger(),
    signal: new AbortController().signal,
  } as unknown as FencerKeeperDeps);
  keeper.run().catch(() => undefined);
});

const pass = async (ms: number): Promise<void> => {
  for (let left = ms; left > 0; left -= 1_000) await clock.advance(1_000);
};

describe("the fencer", () => {
  it("FP1 is asked once the node is silent for the time, and fences it under the epoch of then", async () => {
    await pass(58_000);
    expect(asked).toEqual([]);
    await pass(5_000);
    expect(asked).toEqual([{ node: "n1", machineId: "machine-1", bootId: "boot-1", nodeEpoch: 1 }]);
    expect(fenced).toEqual([["n1", 1, "PDU 3 is off"]]);
    await pass(600_000);
    expect(asked).toHaveLength(1);
  });

  it("[I7] without evidence fences nothing, says so on the node, and is asked again after longer pauses", async () => {
    answer = { kind: "failed", why: "the PDU does not answer" };
    await pass(64_000);
    expect([asked.length, fenced]).toEqual([1, []]);
    expect(keeper.says("n1")).toBe(
      "the fencer was asked 1 times, and gave no evidence that it is off: the PDU does not answer",
    );
    await pass(9_000);
    expect(asked).toHaveLength(2);
    await pass(10_000);
    expect(asked).toHaveLength(2);
    await pass(10_000);
    expect([asked.length, fenced]).toEqual([3, []]);
  });

  it("FP2 is not asked for a node with a volume whose policy is to wait, or with none that wants it", async () => {
    volumes = [volume("data", "fence"), volume("other", "wait")];
    await pass(120_000);
    expect(keeper.says("n1")).toContain("volume ns/other is claimed there, and its policy is to wait");
    volumes = [volume("other", "wait")];
    await pass(120_000);
    expect([asked, fenced, keeper.says("n1")]).toEqual([[], [], ""]);
  });

  it("FP3 is not asked while no node is heard", async () => {
    views.set("n2", silent("n2"));
    hear("n2");
    await pass(120_000);
    expect(asked).toEqual([]);
    expect(keeper.says("n1")).toContain("no node is heard at all");
  });

  it("FP3 is asked about one node at a time", async () => {
    views.set("n3", silent("n3"));
    volumes = [volume("data", "fence"), volume("more", "fence", "n3")];
    hear("n3");
    await pass(90_000);
    expect([asked.length, fenced.length, most]).toEqual([2, 2, 1]);
  });

  it("FP4 is not believed of a node whose agent was started anew while it was asked", async () => {
    during = () => views.set("n1", silent("n1", { instance: "i2" }));
    await pass(64_000);
    expect([asked.length, fenced]).toEqual([1, []]);
    expect(keeper.says("n1")).toContain("started anew meanwhile");
  });

  it("is not asked of a node that is fenced, that speaks again, or in a store that is not vetted", async () => {
    open = false;
    await pass(90_000);
    expect(asked).toEqual([]);
    views.set("n1", heard("n1"));
    hear("n1");
    open = true;
    await pass(90_000);
    views.set("n1", silent("n1", { state: "QUARANTINED" }));
    hear("n1");
    await pass(90_000);
    expect([asked, fenced]).toEqual([[], []]);
  });
});
