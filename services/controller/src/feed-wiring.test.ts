import { expect, it } from "vitest";
import { type FeedParts, wireFeed } from "./feed-wiring.ts";
import { createChanges, nodeChangeKey } from "./records/changes.ts";

const wired = () => {
  const learned: string[] = [];
  const changes = createChanges();
  let read: () => void = () => undefined;
  const parts = {
    records: { learnOf: async (key: string) => void learned.push(`forgotten ${key}`), forgetAll: () => undefined },
    registry: {
      learnOf: () =>
        new Promise<void>((resolve) => {
          read = resolve;
        }),
    },
    pluginRecords: {},
    secrets: {},
    learnedLimits: {},
    changes,
    learned: (key: string) => void learned.push(key),
    inBackground: (_what: string, task: Promise<unknown>) => void task,
  };
  return { feed: wireFeed(parts as unknown as FeedParts), changes, learned, read: () => read() };
};

it("what is remembered of a volume is forgotten before anybody acts on the event", async () => {
  const { feed, learned } = wired();
  const told = { rev: 1, plugin: "p", node: undefined, untaken: true, anyone: false };
  await feed.records.learnOf("default/a", told);
  expect(learned).toEqual(["forgotten default/a", "default/a"]);
});

it("who waits for a node is woken behind the reading of its record", async () => {
  const { feed, changes, read } = wired();
  let woken = false;
  const wait = changes.wait([nodeChangeKey("n1")], changes.version(), new AbortController().signal).then(() => {
    woken = true;
  });
  feed.changes.publish(nodeChangeKey("n1"));
  await new Promise((resolve) => setImmediate(resolve));
  expect(woken).toBe(false);
  read();
  await wait;
});
