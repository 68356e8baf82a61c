import { describe, expect, it } from "vitest";
import { type FeedParts, wireFeed } from "./feed-wiring.ts";

/** Tells what was done, in its order. */
const build = (missed: FeedParts["missed"] = async () => undefined) => {
  const done: string[] = [];
  const kept = (what: string) => ({
    load: async () => {
      await Promise.resolve();
      done.push(`loaded ${what}`);
    },
  });
  const parts = {
    records: {
      learnOf: async (key: string) => void done.push(`forgotten ${key}`),
      forgetAll: () => done.push("forgotten all"),
    },
    registry: kept("nodes"),
    pluginRecords: kept("plugins"),
    secrets: { forgetAll: () => undefined },
    learnedLimits: kept("limits"),
    accessGrants: kept("grants"),
    denials: kept("denials"),
    learned: (key: string) => void done.push(key),
    missed: () => missed().then(() => done.push("taken up")),
  };
  return { done, feed: wireFeed(parts as unknown as FeedParts) };
};

it("what is remembered of a volume is forgotten before anybody acts on the event", async () => {
  const { done, feed } = build();
  await feed.records.learnOf("default/a", { rev: 1, plugin: "p", node: undefined, untaken: true, anyone: false });
  expect(done).toEqual(["forgotten default/a", "default/a"]);
});

describe("events that were missed", () => {
  it("what others left is taken up, once everything that was remembered is read again", async () => {
    const { done, feed } = build();
    await feed.lookAgain();
    const loaded = ["nodes", "plugins", "limits", "grants", "denials"].map((what) => `loaded ${what}`);
    expect(done).toEqual(["forgotten all", ...loaded, "taken up"]);
  });

  it("they are missed still when the store does not tell what others left", async () => {
    const { feed } = build(() => Promise.reject(new Error("away")));
    await expect(feed.lookAgain()).rejects.toThrow("away");
  });
});
