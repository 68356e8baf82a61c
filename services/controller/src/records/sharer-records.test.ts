import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { afterEach, expect, it } from "vitest";
import { createSqliteStore } from "../store/sqlite/sqlite-store.ts";
import { createSharerRecords } from "./sharer-records.ts";

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const build = () => {
  const clock = createManualClock();
  let uuids = 0;
  const uuid = () => {
    uuids += 1;
    return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
  };
  const store = createSqliteStore({ file: ":memory:", now: clock.now, uuid });
  stops.push(() => store.close());
  const deps = { store, clock, ids: { uuid, random: () => 0 }, signal: new AbortController().signal };
  return { one: createSharerRecords(deps), two: createSharerRecords(deps) };
};

const life = (issuer: string, beat = 1) => ({ issuer, beat, plugins: { p: 3 } });
const none = () => false;

it("two that tell at once both stand there, each in its last life", async () => {
  const { one, two } = build();
  await Promise.all([one.tell(life("a/1"), none), two.tell(life("b/1"), none)]);
  expect(new Set(await one.tell(life("a/2"), none))).toEqual(new Set([life("b/1"), life("a/2")]));
  expect(new Set(await two.tell(life("b/1", 2), none))).toEqual(new Set([life("a/2"), life("b/1", 2)]));
});

it("one that signs off, or is forgotten, stands there no more", async () => {
  const { one, two } = build();
  for (const issuer of ["a/1", "b/1", "c/1"]) await one.tell(life(issuer), none);
  await two.remove("b/1");
  await two.remove("b/1");
  expect(await one.tell(life("a/1", 2), ({ issuer }) => issuer === "c/1")).toEqual([life("a/1", 2)]);
});
