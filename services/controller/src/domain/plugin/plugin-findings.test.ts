import { expect, test } from "vitest";
import { pluginFindings } from "./plugin-findings.ts";

test.each([
  ["yes", "no", 1],
  ["yes", "yes", 0],
  ["yes", "unknown", 0],
  ["no", "no", 0],
  ["unknown", "no", 0],
] as const)("a plugin that lists health (%s) and tells it for one volume (%s): %s findings", (lists, gets, count) => {
  const found = pluginFindings("p", { "controller:LIST_VOLUME_HEALTH": lists, "controller:GET_VOLUME_HEALTH": gets });
  expect(found).toHaveLength(count);
  expect(found.every((words) => words.startsWith("plugin p announces LIST_VOLUME_HEALTH without"))).toBe(true);
});
