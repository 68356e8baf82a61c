import { createMetrics } from "@holdfast/shared/metrics";
import { expect, test } from "vitest";
import { measureParts } from "./controller-metrics.ts";
import { nodeRecord } from "./domain/testing/record-fixtures.ts";

test("nodes are counted by what is recorded, and so are those whose name another life asks for", async () => {
  const metrics = createMetrics();
  const another = { life: "l2", machineId: "m2", bootId: "b2", journalUid: "j2", address: "", since: 1 };
  measureParts(metrics, {
    nodes: {
      list: () => [
        { record: nodeRecord("n1"), live: "alive" },
        { record: nodeRecord("n2", { pending: another }), live: "suspect" },
      ],
    },
    gate: { state: () => ({ open: true, vetting: { gen: 1, uid: "vetting-1" }, reason: "" }) },
    commits: () => 0,
    working: () => 0,
    plugins: () => [],
    callsOf: () => {
      throw new Error("there is no plugin");
    },
  });
  const lines = (await metrics.text()).split("\n").filter((line) => line.startsWith("holdfast_nodes"));
  expect(lines).toEqual([
    'holdfast_nodes{state="READY",live="alive"} 1',
    'holdfast_nodes{state="READY",live="suspect"} 1',
    "holdfast_nodes_pending 1",
  ]);
});
