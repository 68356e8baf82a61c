import { describe, expect, it } from "vitest";
import { claimStates } from "./claim.ts";
import { claimEvents, claimMachine, holds, permitLives } from "./claim-machine.ts";

/**
 * Written from docs/protocol.md by hand, in the order of `claimEvents`, so that the machine is checked against something
 * that is not itself. `.` = ignore, `=` = stay, `>` = leave the node, `x` = end.
 */
const order = [
  "grant_attach",
  "grant_offer",
  "queue_timeout",
  "attached",
  "attach_refused",
  "attach_owed",
  "attach_unknown",
  "recalled",
  "published",
  "not_mounted",
  "permit_refused",
  "publish_unknown",
  "publication_lost",
  "release_wanted",
  "released",
  "release_unknown",
  "detached",
  "detach_unknown",
  "fenced",
] as const;

const expected: Record<string, string> = {
  QUEUED: "ATTACHING OFFERED x . . . . . . . . . . x . . . . x",
  ATTACHING: ". . . OFFERED x DETACHING = RELEASING . . . . . = . . . . DETACHING",
  OFFERED: ". . . . . . . . ACTIVE > RELEASING = . RELEASING > . . . >",
  ACTIVE: ". . . . . . . . = > = = = RELEASING > . . . >",
  RELEASING: ". . . . . . . . . > . . . = > = . . >",
  DETACHING: ". . . . . . . . . . . . . = . . x = =",
  RELEASED: ". . . . . . . . . . . . . . . . . . .",
  FAILED: ". . . . . . . . . . . . . . . . . . .",
  FENCED: ". . . . . . . . . . . . . . . . . . .",
};

const words: Record<string, string> = { ".": "ignore", "=": "stay", ">": "leave", x: "end" };

describe("claim machine", () => {
  it("knows the same events as the specification", () => {
    expect([...claimEvents]).toEqual([...order]);
    expect(Object.keys(expected)).toEqual([...claimStates]);
  });

  const cells = claimStates.flatMap((state) => order.map((event, column) => ({ state, event, column })));

  it.each(cells)("[I6] $state × $event", ({ state, event, column }) => {
    const cell = expected[state]?.split(" ")[column] ?? "missing";
    expect(claimMachine[state][event]).toBe(words[cell] ?? cell);
  });

  it("[I1] a claim holds its volume from its grant until its detach is confirmed", () => {
    expect(claimStates.filter((s) => holds[s])).toEqual(["ATTACHING", "OFFERED", "ACTIVE", "RELEASING", "DETACHING"]);
  });

  it("[I3] an epoch keeps the agent's floor down as long as its permit may be honoured", () => {
    expect(claimStates.filter((s) => permitLives[s])).toEqual(["ATTACHING", "OFFERED", "ACTIVE", "RELEASING"]);
  });

  it("[I2] no state leads to a detach but through a proof of release, a fence, or an attach that was never offered", () => {
    for (const state of claimStates)
      for (const event of claimEvents) {
        const cell = claimMachine[state][event];
        if (cell === "DETACHING" && event !== "fenced")
          expect({ state, event }).toEqual({ state: "ATTACHING", event: "attach_owed" });
        if (cell === "leave") expect(["not_mounted", "released", "fenced"]).toContain(event);
      }
  });
});
