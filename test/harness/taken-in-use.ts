import type { Cluster } from "./cluster.ts";

type Calls = Awaited<ReturnType<Cluster["backend"]["client"]["record"]>>;
type Call = Pick<Calls[number], "seq" | "at" | "method" | "volume" | "node">;

/** A workload runs with a volume, from the answer that it may until its scheduler lets go of it; times of the day in ms. */
export interface Use {
  readonly externalId: string;
  readonly node: string;
  readonly from: number;
  readonly until: number;
}

/** Calls that took a volume from a workload which ran with it, by the plugin's own book. */
export const takenInUse = (calls: readonly Call[], uses: readonly Use[]): readonly string[] =>
  calls.flatMap(({ seq, at, method, volume, node }) => {
    if (!/Unpublish|Unstage/.test(method)) return [];
    const when = Date.parse(at);
    const used = uses.some(
      (use) => use.externalId === volume && use.node === node && use.from < when && when < use.until,
    );
    return used ? [`call ${seq}: ${method} of ${volume} at ${node}`] : [];
  });
