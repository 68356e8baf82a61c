import { expect, it } from "vitest";
import { type FeedParts, wireFeed } from "./feed-wiring.ts";
import { createChanges, nodeChangeKey } from "./records/changes.ts";
import { controllerOf, eventBody } from "./records/event-body.ts";

const wired = () => {
  const learned: string[] = [];
  const changes = createChanges();
  let read: () => void = () => undefined;
  const parts = {
    records: { learnOf: async () => undefined, forgetAll: () => undefined },
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
    controllerId: "c1",
    learned: (key: string) => void learned.push(key),
    otherAtWork: () => void learned.push("other at work"),
    inBackground: (_what: string, task: Promise<unknown>) => void task,
  };
  return { feed: wireFeed(parts as unknown as FeedParts), changes, learned, read: () => read() };
};

const at = (issuer: string, by?: { readonly who: string; readonly why: string }) => ({
  now: 1,
  issuer,
  opId: "o",
  random: 0,
  retry: { baseMs: 1, capMs: 1 },
  ...(by === undefined ? {} : { by }),
});

it("an event of a former life of this controller is no word of another controller at work", async () => {
  const { feed, learned } = wired();
  const told = (issuer: string, by?: { readonly who: string; readonly why: string }) =>
    controllerOf(JSON.parse(eventBody({ body: {} }, 1, at(issuer, by))));
  await feed.records.learnOf("default/a", 1, undefined, told("c1/3-abc"));
  await feed.records.learnOf("default/b", 1, undefined, told("c1/3-abc", { who: "scheduler x", why: "CreateClaims" }));
  await feed.records.learnOf("default/c", 1, undefined, told("c2/1-def", { who: "scheduler x", why: "CreateClaims" }));
  await feed.records.learnOf("default/d", 1, undefined, told("c2/1-def"));
  await feed.records.learnOf("default/e", 1, undefined, controllerOf({ who: "somebody" }));
  expect(learned).toEqual([
    "default/a",
    "default/b",
    ...["other at work", "default/c"],
    ...["other at work", "default/d"],
    ...["other at work", "default/e"],
  ]);
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
