import type { ReceivedSpan } from "./otlp-receiver.ts";
import { until } from "./until.ts";

/** What a span of another trace led to: named by that span where it is among those given. */
const linksOf = (span: ReceivedSpan, all: readonly ReceivedSpan[]): string =>
  span.links.map(({ spanId }) => ` ↶ ${all.find((each) => each.spanId === spanId)?.name ?? "another trace"}`).join("");

/** How a span's end is written: what went wrong, and what follows. */
const endOf = (span: ReceivedSpan): string => {
  const error = span.status === 2 ? ` ✗ ${span.attributes["error.type"] ?? ""}` : "";
  return `${error.trimEnd()}${span.events.map((event) => ` (${event})`).join("")}`;
};

const line = (span: ReceivedSpan, all: readonly ReceivedSpan[]): string => {
  const attempt = span.attributes["holdfast.attempt"];
  const which = attempt === undefined ? "" : ` #${attempt}`;
  return `${span.service.replace("holdfast-", "")}: ${span.name}${which}${linksOf(span, all)}${endOf(span)}`;
};

/** In the order of their begin. Begins are told in milliseconds: of two that follow each other within one, the first ends first. */
const byBegin = (a: ReceivedSpan, b: ReceivedSpan): number => Number(a.start - b.start) || Number(a.end - b.end);

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
      .sort(byBegin);
  const draw = (span: ReceivedSpan, depth: number): readonly string[] => [
    `${"  ".repeat(depth)}${line(span, spans)}`,
    ...under(span.spanId).flatMap((child) => draw(child, depth + 1)),
  ];
  return under(undefined)
    .flatMap((root) => draw(root, 0))
    .join("\n");
};

/** A request's trace and below it, in the order of their begin, the traces that link to it: what came of it later. */
export const followedShape = (spans: readonly ReceivedSpan[], traceId: string): string => {
  const following = spans.filter(({ links }) => links.some((link) => link.traceId === traceId)).sort(byBegin);
  return [...new Set([traceId, ...following.map((span) => span.traceId)])]
    .map((id) => traceShape(spans, id))
    .filter((shape) => shape !== "")
    .join("\n\n");
};

/** The processes send their spans when they like; answers the shape once it is as wanted, or what it is when the time is up. */
export const shapeOnceComplete = async (
  spans: () => readonly ReceivedSpan[] | Promise<readonly ReceivedSpan[]>,
  traceId: string,
  wanted: string,
): Promise<string> => {
  let shape = "";
  await until("the trace", async () => {
    shape = followedShape(await spans(), traceId);
    return shape === wanted;
  }).catch(() => undefined);
  return shape;
};
