import { createMetrics } from "@holdfast/shared/metrics";
import { expect, test } from "vitest";
import { measureParts, timedCommits } from "./controller-metrics.ts";
import type { Dispute } from "./domain/node/dispute.ts";
import { nodeRecord } from "./domain/testing/record-fixtures.ts";
import { finding } from "./gate/finding.ts";
import type { Store } from "./ports.ts";

test("nodes are counted by what is recorded, by who asks for their name, and by what keeps the store shut", async () => {
  const metrics = createMetrics();
  const refused = (node: string, reason: Dispute["reason"]) => ({
    ...{ node, reason, since: 1, machineId: "m3", bootId: "b3", why: "" },
  });
  const another = { life: "l2", machineId: "m2", bootId: "b2", journalUid: "j2", address: "", since: 1 };
  measureParts(metrics, {
    nodes: {
      list: () => [
        { record: nodeRecord("n1"), live: "alive" },
        { record: nodeRecord("n2", { pending: another }), live: "suspect" },
      ],
      disputes: () => [refused("n1", "NODE_CONFLICT"), refused("strange", "CLUSTER_MISMATCH")],
    },
    gate: {
      state: () => ({ open: false, vetting: { gen: 1, uid: "vetting-1" }, reason: "" }),
      findings: () => [finding("NOT_PROMISED", "", "n1"), finding("NOT_PROMISED", "", "n2"), finding("HOLD", "", "n1")],
    },
    commits: () => 0,
    working: () => 0,
    plugins: () => [],
    callsOf: () => {
      throw new Error("there is no plugin");
    },
  });
  const text = (await metrics.text()).split("\n");
  const found = text.filter((line) => line.startsWith("holdfast_vetting_findings") && !line.endsWith(" 0"));
  expect(found).toEqual([
    'holdfast_vetting_findings{kind="NOT_PROMISED"} 2',
    'holdfast_vetting_findings{kind="HOLD"} 1',
  ]);
  expect(text.filter((line) => line.startsWith("holdfast_nodes"))).toEqual([
    'holdfast_nodes{state="READY",live="alive"} 1',
    'holdfast_nodes{state="READY",live="suspect"} 1',
    "holdfast_nodes_pending 1",
    "holdfast_nodes_in_conflict 1",
  ]);
  expect(text).toContain("holdfast_agents_of_others 1");
});

test("each commit is timed, by what became of it", async () => {
  const metrics = createMetrics();
  const answers = [
    { ok: true, revs: [], token: "", order: 0 },
    { ok: false, conflicts: [] },
  ];
  const store = timedCommits<Pick<Store, "commit">>(metrics, {
    commit: async () => {
      const answer = answers.shift();
      if (answer === undefined) throw new Error("no answer");
      return answer as never;
    },
  });
  const asked = { opId: "o", writes: [], events: [], requiresVetted: false };
  expect(await store.commit(asked)).toMatchObject({ ok: true });
  expect(await store.commit(asked)).toMatchObject({ ok: false });
  await expect(store.commit(asked)).rejects.toThrow("no answer");
  const counts = (await metrics.text()).split("\n").filter((line) => line.includes("commit_seconds_count"));
  expect(counts.sort()).toEqual(
    ["refused", "stored", "unknown"].map((outcome) => `holdfast_store_commit_seconds_count{outcome="${outcome}"} 1`),
  );
});
