/** A person who finds that another life of a node waits, and runs what its block prints. */
import { runAsTold } from "./as-told.ts";
import type { Cluster } from "./cluster.ts";
import { persistently } from "./scenario.ts";
import { until } from "./until.ts";

export const admitWaiting = async (cluster: Cluster, node: string): Promise<void> => {
  const line = await until(`another life of ${node} to wait`, async () => {
    const { stuck } = await cluster.repair.listStuck({ node, reasons: ["NODE_PENDING"] });
    const told = stuck.find(({ state, blocked }) => state === "PENDING" && blocked?.clearWith.includes("node admit"));
    return /holdfast node admit [^,;]+/.exec(told?.blocked?.clearWith ?? "")?.[0];
  });
  await persistently("the admission", async () => {
    const end = await runAsTold(cluster, line);
    if (!end.includes(" → 0 ")) throw new Error(end);
  });
};
