import type { ReceivedSpan } from "./otlp-receiver.ts";

const milliseconds = (span: ReceivedSpan): string => (Number(span.end - span.start) / 1e6).toFixed(1);

const detail = (span: ReceivedSpan): string =>
  ["holdfast.plugin", "holdfast.attempt", "rpc.grpc.status_code", "holdfast.outcome"]
    .flatMap((key) =>
      span.attributes[key] === undefined
        ? []
        : [`${key.replace(/^holdfast\.|^rpc\.grpc\./, "")}=${span.attributes[key]}`],
    )
    .join(" ");

/** A trace as indented text: who did what, below whom, for how long. Spans whose parent is missing stand at the top. */
export const traceTree = (spans: readonly ReceivedSpan[], traceId: string): string => {
  const mine = spans.filter((s) => s.traceId === traceId);
  const ids = new Set(mine.map((s) => s.spanId));
  const children = (parent: string): readonly ReceivedSpan[] =>
    mine
      .filter((s) => (parent === "" ? !ids.has(s.parentSpanId) : s.parentSpanId === parent))
      .sort((a, b) => (a.start < b.start ? -1 : 1));
  const draw = (span: ReceivedSpan, depth: number): readonly string[] => [
    `${"  ".repeat(depth)}${span.status === 2 ? "✗" : "·"} ${span.service}  ${span.name}  ${milliseconds(span)} ms  ${detail(span)}`.trimEnd(),
    ...children(span.spanId).flatMap((child) => draw(child, depth + 1)),
  ];
  return children("")
    .flatMap((root) => draw(root, 0))
    .join("\n");
};
