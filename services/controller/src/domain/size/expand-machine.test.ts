import { describe, expect, it } from "vitest";
import { noAttempts } from "../outcome.ts";
import { owedEvents } from "../owed-events.ts";
import { failureWith, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { modifyAnswered } from "../volume/modify-change.ts";
import { type ModifyPlace, modifyMachine, modifyPlaces } from "../volume/modify-machine.ts";
import { expandAnswered } from "./expand-answer.ts";
import { type ExpandPlace, expandMachine, expandPlaces } from "./expand-machine.ts";

/** Written from docs/growth.md by hand, so that the machines are checked against something that is not themselves. `.` = ignore. */
const events = ["wanted", "not_possible", "started", "dropped"] as const;

const expansions: Record<string, string> = {
  NONE: "WANTED . . .",
  WANTED: "merge REFUSED CALLING NONE",
  CALLING: "merge . . .",
  UNCERTAIN: "merge UNCERTAIN CALLING NONE",
  REFUSED: "WANTED . . NONE",
};

const modifications: Record<string, string> = {
  NONE: "WANTED . . .",
  WANTED: "retarget REFUSED CALLING NONE",
  CALLING: ". . . .",
  UNCERTAIN: "retarget UNCERTAIN CALLING NONE",
  REFUSED: "WANTED . . NONE",
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

/**
 * As the page has it, by answer: done, refused, refused for now, refused in doubt, no certain answer. Of one that is in doubt already the
 * size at the backend comes with a refusal, so that no attempt is in doubt any more.
 */
const answersOf = {
  done: { kind: "done", value: { capacity: 200, nodesFollow: false } },
  refused: { kind: "refused", failure: failureWith("fail") },
  held_off: { kind: "refused", failure: failureWith("block") },
  refused_in_doubt: { kind: "refused", failure: failureWith("fail") },
  unknown: { kind: "unknown", failure: failureWith("again") },
} as const;
const at = momentAt(5_000);
const intent = (op: "expand" | "modify", doubtful: boolean) =>
  ({
    op,
    epoch: { gen: 1, ctr: 1 },
    issuer: at.issuer,
    opId: "op-1",
    ...(doubtful ? { uncertainSince: 1 } : {}),
  }) as const;
const base = { attempts: noAttempts, since: 1 };

const placesAfter = (decide: (answer: keyof typeof answersOf) => string): string =>
  (Object.keys(answersOf) as (keyof typeof answersOf)[]).map(decide).join(" ");

describe("an answer", () => {
  const ofExpansion: Record<ExpandPlace, string> = {
    NONE: ". . . . .",
    WANTED: ". . . . .",
    CALLING: "NONE REFUSED WANTED UNCERTAIN UNCERTAIN",
    UNCERTAIN: "NONE REFUSED WANTED UNCERTAIN UNCERTAIN",
    REFUSED: ". . . . .",
  };

  it.each(expandPlaces)("to an expansion that is %s", (place) => {
    const found = placesAfter((answer) => {
      const doubtful = answer === "refused_in_doubt";
      const expansion = { ...base, target: { required: 200, limit: 0 }, onlyUnused: false };
      const volume = volumeRecord([], [], {
        intent: intent("expand", doubtful),
        ...(place === "NONE" ? {} : { expansion: { ...expansion, state: place } }),
      });
      const known = doubtful || place !== "UNCERTAIN" ? undefined : { capacity: 100, nodesFollow: false };
      const after = expandAnswered(volume, answersOf[answer], known, at).volume;
      return after === volume ? "." : (after?.expansion?.state ?? "NONE");
    });
    expect(found).toBe(ofExpansion[place]);
  });

  const ofModification: Record<ModifyPlace, string> = {
    NONE: ". . . . .",
    WANTED: ". . . . .",
    CALLING: "NONE REFUSED WANTED UNCERTAIN UNCERTAIN",
    UNCERTAIN: "NONE UNCERTAIN UNCERTAIN UNCERTAIN UNCERTAIN",
    REFUSED: ". . . . .",
  };

  it.each(modifyPlaces)("to a modification that is %s", (place) => {
    const found = placesAfter((answer) => {
      const volume = volumeRecord([], [], {
        intent: intent("modify", answer === "refused_in_doubt"),
        ...(place === "NONE"
          ? {}
          : {
              modification: {
                ...base,
                target: {},
                state: place,
                ...(place === "UNCERTAIN" ? { uncertainSince: 1 } : {}),
              },
            }),
      });
      const after = modifyAnswered(volume, answersOf[answer], at).volume;
      return after === volume ? "." : (after?.modification?.state ?? "NONE");
    });
    expect(found).toBe(ofModification[place]);
  });
});
