import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { beforeEach, describe, expect, it } from "vitest";
import type { NodeRecord } from "../../domain/node/node.ts";
import {
  attachmentRecord,
  barRecord,
  claimRecord,
  momentAt,
  nodeRecord,
  volumeRecord,
} from "../../domain/testing/record-fixtures.ts";
import type { NodeView } from "../../ports.ts";
import type { ChangeOptions } from "../../records/volume/change-options.ts";
import type { Decide } from "../../records/volume/volume-decisions.ts";
import { createFenceKeeper, type FenceKeeperDeps } from "./fence-keeper.ts";

const fenced = nodeRecord("n1", {
  ...{ state: "FENCING", nodeEpoch: 2, linkLost: { at: 1 } },
  fence: { kind: "power-off", who: "ops", evidence: "off", since: 1 },
});
const held = volumeRecord(
  [claimRecord("web", { node: "n1", state: "ACTIVE", epoch: { gen: 1, ctr: 1 } })],
  [attachmentRecord("n1")],
);

let view: NodeView;
let relied: unknown[];
let states: string[];
/** What another controller does between the look and the decision. */
let meanwhile: () => void;
let open: boolean;
let woken: string[];

const keeperOf = (volumes = [held]) => {
  let heard: (node: string) => void = () => undefined;
  const keeper = createFenceKeeper({
    nodes: {
      get: () => view,
      list: () => [view],
      onChange: (listener: typeof heard) => (heard = listener),
      async change(_name: string, decide: (record: NodeRecord) => NodeRecord) {
        view = { ...view, record: decide(view.record) };
        return view;
      },
    },
    records: {
      list: async () => ({ volumes: volumes.map((volume) => ({ volume, rev: 7 })), next: undefined }),
      async change(volume: typeof held, decide: Decide, options: ChangeOptions) {
        meanwhile();
        const after = decide(volume, momentAt(5));
        if (after.volume !== volume) relied.push(await options.expects?.());
        states.push(...Object.values(after.volume?.claims ?? {}).map(({ state }) => state));
        return { volume: after.volume };
      },
    },
    agents: { inventory: async () => ({ nodeEpoch: view.record.nodeEpoch, volumes: [], orphans: [] }) },
    gate: { state: () => ({ open, vetting: { gen: 1, uid: "vetting-1" }, reason: "" }) },
    wake: (key: string, hurry: boolean) => woken.push(`${key} ${hurry}`),
    clock: createManualClock(),
    log: createMemoryLogger(),
    signal: new AbortController().signal,
  } as unknown as FenceKeeperDeps);
  return {
    ...keeper,
    async look() {
      heard("n1");
      await keeper.idle();
    },
  };
};

beforeEach(() => {
  view = { rev: 4, record: fenced, live: "suspect", linked: false };
  relied = [];
  states = [];
  meanwhile = () => undefined;
  open = true;
  woken = [];
});

describe("[I1] a claim is forced", () => {
  it("FK4 only over the very record of the node that is FENCING", async () => {
    await keeperOf().look();
    expect(states).toEqual(["DETACHING"]);
    expect(relied).toEqual([[{ ref: { kind: "node", key: "n1" }, expectedRev: 4 }]]);
  });

  it("FK4 not of a node that is READY again when it is decided", async () => {
    meanwhile = () => {
      view = { rev: 9, record: { ...fenced, state: "READY" }, live: "alive", linked: true };
    };
    await keeperOf().look();
    expect([states, relied]).toEqual([["ACTIVE"], []]);
  });

  it("FK2 not of a node whose agent is heard when it is decided: that is asked to let go", async () => {
    meanwhile = () => {
      const { linkLost: _heard, ...record } = fenced;
      view = { rev: 9, record, live: "alive", linked: true };
    };
    await keeperOf().look();
    expect(states).toEqual(["RELEASING"]);
  });

  it("FK1 [I8] not in a store that is not vetted", async () => {
    open = false;
    const keeper = keeperOf();
    await keeper.look();
    expect(states).toEqual([]);
    expect(keeper.waitsFor("n1")).toBe("the store to be vetted");
  });
});

describe("a node", () => {
  it("stays FENCING as long as anything is claimed or attached there", async () => {
    const keeper = keeperOf([volumeRecord([], [attachmentRecord("n1", { state: "DETACHING" })])]);
    await keeper.look();
    expect(view.record.state).toBe("FENCING");
    expect(keeper.waitsFor("n1")).toContain("1 claims, attachments and bars");
  });

  it("F2 behind a bar waits for it, and has it looked at at once", async () => {
    await keeperOf([{ ...held, bars: [barRecord("n1")] }]).look();
    expect([states, woken]).toEqual([["ACTIVE"], ["ns/data true"]]);
  });

  it("with nothing is QUARANTINED, and stays that while it is silent", async () => {
    const keeper = keeperOf([]);
    await keeper.look();
    await keeper.look();
    expect(view.record).toMatchObject({ state: "QUARANTINED", fence: { who: "ops" } });
    expect(keeper.waitsFor("n1")).toBe("its agent to come back");
  });

  it("FK3 that is heard by another controller alone is not READY by this one", async () => {
    view = { rev: 4, record: { ...fenced, state: "QUARANTINED" }, live: "alive", linked: false };
    await keeperOf([]).look();
    expect(view.record.state).toBe("QUARANTINED");
  });

  it("FK3 that shows that it is empty is READY", async () => {
    view = { rev: 4, record: { ...fenced, state: "QUARANTINED" }, live: "alive", linked: true };
    await keeperOf([]).look();
    expect(view.record.state).toBe("READY");
    expect(view.record.fence).toBeUndefined();
  });
});
