import type { ReceivedSpan } from "./otlp-receiver.ts";
import { until } from "./until.ts";

/** How a span's end is written: what went wrong, and what follows. */
const endOf = (span: ReceivedSpan): string => {
  const error = span.status === 2 ? ` ✗ ${span.attributes["error.type"] ?? ""}` : "";
  return `${error.trimEnd()}${span.events.map((event) => ` (${event})`).join("")}`;
};

const line = (span: ReceivedSpan): string => {
  const attempt = span.attributes["holdfast.attempt"];
  const which = attempt === undefined ? "" : ` #${attempt}`;
  return `${span.service.replace("holdfast-", "")}: ${span.name}${which}${endOf(span)}`;
};

/** One trace as indented text without what differs from run to run: ids and times. Siblings in the order of their begin. */
export const traceShape = (spans: readonly ReceivedSpan[], traceId: string): string => {
  const mine = spans.filter(
    // A step that was woken for nothing: how often that happens depends on who was faster.
    (span) => span.traceId === traceId && (span.attributes["holdfast.changed"] !== false || span.status === 2),
  );
  const known = new Set(mine.map((span) => span.spanId));
  const under = (parent: string | undefined): readonly ReceivedSpan[] =>
    mine
      .filter((span) => (parent === undefined ? !known.has(span.parentSpanId) : span.parentSpanId === parent))
      .sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  const draw = (span: ReceivedSpan, depth: number): readonly string[] => [
    `${"  ".repeat(depth)}${line(span)}`,
    ...under(span.spanId).flatMap((child) => draw(child, depth + 1)),
  ];
  return under(undefined)
    .flatMap((root) => draw(root, 0))
    .join("\n");
};

/** The processes send their spans when they like; answers the shape once it is as wanted, or what it is when the time is up. */
export const shapeOnceComplete = async (
  spans: () => readonly ReceivedSpan[],
  traceId: string,
  wanted: string,
): Promise<string> => {
  await until("the trace", () => traceShape(spans(), traceId) === wanted).catch(() => undefined);
  return traceShape(spans(), traceId);
};
