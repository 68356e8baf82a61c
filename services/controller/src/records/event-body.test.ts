import { expect, it } from "vitest";
import { eventBody } from "./event-body.ts";

const at = { now: 1, issuer: "c1/1", opId: "o", random: 0, retry: { baseMs: 1, capMs: 1 } };

it.each([
  { untaken: false, anyone: false, says: [undefined, undefined] },
  { untaken: true, anyone: false, says: [true, undefined] },
  { untaken: false, anyone: true, says: [undefined, true] },
])("an event says no more than is asked of other controllers: $says", ({ says, ...asks }) => {
  const { untaken, anyone } = JSON.parse(eventBody({ body: {} }, 1, at, asks));
  expect([untaken, anyone]).toEqual(says);
});
