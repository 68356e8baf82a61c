import { expect, test } from "vitest";
import type { WorkloadName } from "../domain/workload-machine.ts";
import { createWorkloadFeed, type WorkloadChange, type WorkloadFilter } from "./workload-feed.ts";

const all: WorkloadFilter = { namespace: "", workload: "" };
const anyTime = new AbortController().signal;

function startFeed(keep = 100, instance = "one") {
  const known = new Set<string>();
  const nameOf = (key: string): WorkloadName => {
    const [namespace = "", workload = ""] = key.split("/");
    return { namespace, workload };
  };
  const feed = createWorkloadFeed({
    instance,
    keep,
    workloads: {
      names: () => [...known].map(nameOf),
      find: async ({ namespace, workload }) =>
        known.has(`${namespace}/${workload}`)
          ? { namespace, workload, mounts: [], claims: [], ready: true }
          : undefined,
    },
  });
  return {
    feed,
    put(key: string) {
      known.add(key);
      feed.note(nameOf(key));
    },
    remove(key: string) {
      known.delete(key);
      feed.note(nameOf(key));
    },
  };
}

const show = ({ kind, view }: WorkloadChange): string =>
  view === undefined ? kind : `${kind} ${view.namespace}/${view.workload}`;

/** So many messages, and the token of the last. */
async function take(feed: ReturnType<typeof startFeed>["feed"], count: number, filter = all, token = "") {
  const watch = feed.watch(filter, token, anyTime);
  const shown: string[] = [];
  let last = token;
  for (let at = 0; at < count; at += 1) {
    const { value, done } = await watch.next();
    if (done === true) throw new Error("a watch does not end");
    shown.push(show(value));
    last = value.resumeToken;
  }
  return { shown, last, watch };
}

test("everything that exists, in step, then what changes: nothing in between is missed", async () => {
  const { feed, put, remove } = startFeed();
  put("b/two");
  put("a/one");
  const { shown, watch } = await take(feed, 3);
  expect(shown).toEqual(["existing a/one", "existing b/two", "synced"]);
  put("c/three");
  remove("a/one");
  expect([show((await watch.next()).value), show((await watch.next()).value)]).toEqual([
    "changed c/three",
    "removed a/one",
  ]);
});

test("[F1] a change during the first part is told after it", async () => {
  const { feed, put } = startFeed();
  put("a/one");
  const watch = feed.watch(all, "", anyTime);
  expect(show((await watch.next()).value)).toBe("existing a/one");
  put("a/zero");
  expect(show((await watch.next()).value)).toBe("synced");
  expect(show((await watch.next()).value)).toBe("changed a/zero");
});

test("a watch that is cut off goes on where it was: in the first part, and behind it", async () => {
  const { feed, put } = startFeed();
  for (const key of ["a/one", "a/two", "a/three"]) put(key);
  const first = await take(feed, 1);
  expect(first.shown).toEqual(["existing a/one"]);
  const rest = await take(feed, 3, all, first.last);
  expect(rest.shown).toEqual(["existing a/three", "existing a/two", "synced"]);
  put("a/four");
  expect((await take(feed, 1, all, rest.last)).shown).toEqual(["changed a/four"]);
});

test("only what was asked for", async () => {
  const { feed, put } = startFeed();
  for (const key of ["a/one", "b/one", "a/two"]) put(key);
  const { shown, watch } = await take(feed, 2, { namespace: "a", workload: "two" });
  expect(shown).toEqual(["existing a/two", "synced"]);
  put("b/one");
  put("a/two");
  expect(show((await watch.next()).value)).toBe("changed a/two");
});

test("[F3] a history that no longer reaches back, or of another life, says so; a token of another watch is a mistake", async () => {
  const { feed, put } = startFeed(3);
  put("a/one");
  const { last } = await take(feed, 2);
  for (const key of ["a/two", "a/three", "a/four", "a/five"]) put(key);
  const read = (token: string, from = feed) => from.watch(all, token, anyTime).next();
  await expect(read(last)).rejects.toMatchObject({ kind: "out_of_range", reason: "EVENTS_TRIMMED" });
  await expect(read(last, startFeed(3, "two").feed)).rejects.toMatchObject({ reason: "EVENTS_TRIMMED" });
  for (const wrong of ["x", "e30", Buffer.from('["one",-1]').toString("base64url")])
    await expect(read(wrong)).rejects.toMatchObject({ violations: [{ field: "resume_token" }] });
  // The oldest token that is told is good.
  const error = (await read(last).catch((it: unknown) => it)) as { metadata: Record<string, string> };
  expect((await take(feed, 3, all, error.metadata["oldest_token"] ?? "")).shown).toEqual([
    "changed a/three",
    "changed a/four",
    "changed a/five",
  ]);
});

test("a watch ends with its caller", async () => {
  const { feed } = startFeed();
  const caller = new AbortController();
  const watch = feed.watch(all, "", caller.signal);
  await watch.next();
  const next = watch.next();
  caller.abort(new Error("gone"));
  await expect(next).rejects.toThrow("gone");
});
