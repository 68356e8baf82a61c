import { expect, test } from "vitest";
import { traceIdOf } from "./trace-id.ts";

test("the trace of a traceparent, and none of what is no such text", () => {
  const trace = "0af7651916cd43dd8448eb211c80319c";
  expect(traceIdOf(`00-${trace}-b7ad6b7169203331-01`)).toBe(trace);
  for (const none of [undefined, "", "00", "a-b-c-d", `00-${trace}`, `00-${trace.toUpperCase()}-b7ad6b7169203331-01`])
    expect(traceIdOf(none), none).toBeUndefined();
});
