import type { OtlpReceiver } from "../test/harness/otlp-receiver.ts";
import { traceTree } from "../test/harness/trace-tree.ts";

const wanted = [
  "ClaimService/CreateClaims",
  "Controller/ControllerPublishVolume",
  "Node/NodeStageVolume",
  "Node/NodePublishVolume",
];

/** The spans come when each process sends them: until the trace is whole, then as a tree. */
export const showTrace = async (
  traces: OtlpReceiver,
  traceId: string,
  volumes: number,
  say: (text: string) => void,
): Promise<void> => {
  const spans = await traces.until(
    (all) => {
      const ours = all.filter((span) => span.traceId === traceId);
      const ids = new Set(ours.map((span) => span.spanId));
      const [request = "", ...calls] = wanted;
      // Each call of a plugin is two spans: its caller's and its own.
      const calledFor = (name: string): boolean =>
        ours.filter((span) => span.name.endsWith(name)).length >= 2 * volumes;
      return (
        ours.some((span) => span.name.endsWith(request)) &&
        ours.every((span) => span.parentSpanId === "" || ids.has(span.parentSpanId)) &&
        calls.every(calledFor)
      );
    },
    `${wanted.join(", ")} of the claim`,
  );
  say(`\nThe last claim as one trace (${traceId}), from the request to each call of the driver:\n`);
  for (const line of traceTree(spans, traceId).split("\n")) say(`  ${line}`);
};
