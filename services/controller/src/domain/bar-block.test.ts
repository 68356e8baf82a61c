import { describe, expect, it } from "vitest";
import { barBlock, gateAway } from "./bar-block.ts";
import { barRecord, volumeRecord } from "./testing/record-fixtures.ts";

const clearWith = (reason?: string): string => {
  const lastError = reason === undefined ? {} : { lastError: { reason, message: "words", at: 1 } };
  const bar = barRecord("n1", { via: "node g1: p", attempts: { count: 1, nextTry: 0, ...lastError } });
  return barBlock(volumeRecord([], [], { bars: [bar] }), bar).clearWith;
};

describe("what clears a bar", () => {
  it.each([undefined, gateAway])("is the start of its host as long as its gate has not answered (%s)", (reason) => {
    expect(clearWith(reason)).toMatch(/^start the host or controller of that instance again, .* repair clear-bar /);
  });

  it.each(["BAR_STANDS", "DEADLINE_EXCEEDED"])("is a restart of the plugin where its gate is there (%s)", (reason) => {
    expect(clearWith(reason)).toMatch(/^restart plugin instance "node g1: p", .* repair clear-bar /);
  });
});
