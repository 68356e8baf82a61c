import { describe, expect, it } from "vitest";
import { owedEvents } from "../owed-events.ts";
import { modifyMachine, modifyPlaces } from "../volume/modify-machine.ts";
import { expandMachine, expandPlaces } from "./expand-machine.ts";

/** Written from docs/growth.md by hand, so that the machines are checked against something that is not themselves. `.` = ignore. */
const events = [
  "wanted",
  "not_possible",
  "started",
  "done",
  "refused",
  "held_off",
  "refused_in_doubt",
  "unknown",
  "dropped",
] as const;

const expansions: Record<string, string> = {
  NONE: "WANTED . . . . . . . .",
  WANTED: "merge REFUSED CALLING . . . . . NONE",
  CALLING: "merge . . settle refuse WANTED UNCERTAIN UNCERTAIN .",
  UNCERTAIN: "merge UNCERTAIN CALLING settle refuse WANTED UNCERTAIN UNCERTAIN NONE",
  REFUSED: "WANTED . . . . . . . NONE",
};

const modifications: Record<string, string> = {
  NONE: "WANTED . . . . . . . .",
  WANTED: "retarget REFUSED CALLING . . . . . NONE",
  CALLING: ". . . NONE REFUSED WANTED UNCERTAIN UNCERTAIN .",
  UNCERTAIN: "retarget UNCERTAIN CALLING NONE . . UNCERTAIN UNCERTAIN NONE",
  REFUSED: "WANTED . . . . . . . NONE",
};

const rowOf = (row: Readonly<Record<string, string>>): string =>
  events.map((event) => (row[event] === "ignore" ? "." : row[event])).join(" ");

describe("the machine of an expansion", () => {
  it("knows the states and events of the page", () => {
    expect([...owedEvents]).toEqual([...events]);
    expect(Object.keys(expansions)).toEqual([...expandPlaces]);
  });

  it.each(expandPlaces)("%s: every cell", (place) => {
    expect(rowOf(expandMachine[place])).toBe(expansions[place]);
  });
});

describe("the machine of a modification", () => {
  it("knows the states and events of the page", () => {
    expect([...owedEvents]).toEqual([...events]);
    expect(Object.keys(modifications)).toEqual([...modifyPlaces]);
  });

  it.each(modifyPlaces)("%s: every cell", (place) => {
    expect(rowOf(modifyMachine[place])).toBe(modifications[place]);
  });
});
