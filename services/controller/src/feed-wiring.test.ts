import { expect, it } from "vitest";
import { type FeedParts, wireFeed } from "./feed-wiring.ts";

it("what is remembered of a volume is forgotten before anybody acts on the event", async () => {
  const learned: string[] = [];
  const parts = {
    records: { learnOf: async (key: string) => void learned.push(`forgotten ${key}`) },
    registry: {},
    pluginRecords: {},
    secrets: {},
    learnedLimits: {},
    accessGrants: {},
    denials: {},
    learned: (key: string) => void learned.push(key),
  };
  const feed = wireFeed(parts as unknown as FeedParts);
  const told = { rev: 1, plugin: "p", node: undefined, untaken: true, anyone: false };
  await feed.records.learnOf("default/a", told);
  expect(learned).toEqual(["forgotten default/a", "default/a"]);
});
