import type { Cluster } from "./cluster.ts";

type Call = Awaited<ReturnType<Cluster["backend"]["client"]["record"]>>[number];
type Calls = readonly Pick<Call, "seq" | "endSeq" | "method" | "volume" | "node" | "done">[];

/** Of volumes for one writer: publications that arrived at one node while another one had the volume, by the plugin's own book. */
export const doubleWriters = (calls: Calls): readonly string[] => {
  const steps = calls.flatMap(({ seq, endSeq, method, volume = "", node = "", done }) => {
    if (!done) return [];
    // One counts from its arrival, and until its end has an answer.
    if (method === "NodePublishVolume") return [{ at: seq, volume, node, there: true }];
    return method === "NodeUnpublishVolume" ? [{ at: endSeq ?? seq, volume, node, there: false }] : [];
  });
  const where = new Map<string, Set<string>>();
  const found: string[] = [];
  for (const { at, volume, node, there } of steps.toSorted((a, b) => a.at - b.at)) {
    const nodes = where.get(volume) ?? new Set<string>();
    where.set(volume, nodes);
    if (!there) nodes.delete(node);
    else if ([...nodes].some((other) => other !== node))
      found.push(`call ${at}: ${volume} at ${node} beside ${[...nodes]}`);
    if (there) nodes.add(node);
  }
  return found;
};
