import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, it } from "vitest";
import { claimRecord, momentAt, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import type { NodeView } from "../../ports.ts";
import type { ChangeOptions } from "../../records/volume/change-options.ts";
import type { DecideMany } from "../../records/volume/volume-decisions.ts";
import { createDrainKeeper, type DrainKeeperDeps } from "./drain-keeper.ts";

it("K5 a release is stored only over the record of the node that has the drain", async () => {
  const drained = { rev: 2, record: { name: "n1", drain: { since: 1, reason: "", mode: "release" } } };
  const volume = volumeRecord([claimRecord("web", { node: "n1", state: "QUEUED" })]);
  const relied: unknown[] = [];
  const records = {
    list: async () => ({ volumes: [{ volume, rev: 7 }], next: undefined }),
    async changeMany(_refs: unknown, decide: DecideMany, options: ChangeOptions) {
      expect(decide([volume], momentAt(1))[0]?.ended).toHaveLength(1);
      relied.push(await options.expects?.());
      return [];
    },
  };
  let heard: (node: string) => void = () => undefined;
  const keeper = createDrainKeeper({
    nodes: {
      get: () => drained as unknown as NodeView,
      list: () => [],
      onChange: (listener: typeof heard) => (heard = listener),
    },
    records,
    clock: createManualClock(),
    log: createMemoryLogger(),
    signal: new AbortController().signal,
  } as unknown as DrainKeeperDeps);
  heard("n1");
  await keeper.idle();
  expect(relied[0]).toEqual([{ ref: { kind: "node", key: "n1" }, expectedRev: 2 }]);
});
