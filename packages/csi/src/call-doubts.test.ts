import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { describe, expect, it } from "vitest";
import { createCallDoubts, type SocketListener } from "./call-doubts.ts";

const listener = (incarnation: string, gone = false, socketPath = "/p.sock"): SocketListener => ({
  socketPath,
  incarnation,
  gone: () => gone,
});

const start = (most?: number) =>
  createCallDoubts({ clock: createManualClock(), ...(most === undefined ? {} : { most }) });
const doubtOf = (subject: string, by: SocketListener, text = "t", told = false) => ({
  subject,
  listener: by,
  text: () => text,
  words: `${text} for ${subject}`,
  told,
  opId: `op-${text}`,
});

describe("the call that ends a doubt", () => {
  it.each([
    ["the same process, which was cut off", false, listener("1"), listener("1"), false],
    ["the same process, which said ABORTED", true, listener("1"), listener("1"), true],
    ["the next process on the socket, while the first is there", false, listener("1"), listener("2"), false],
    [
      "the next process on the socket, while the one that said ABORTED is there",
      true,
      listener("1"),
      listener("2"),
      false,
    ],
    ["the next process on the socket of one that is gone", false, listener("1", true), listener("2"), true],
    ["a process on another socket", false, listener("1", true), listener("2", false, "/q.sock"), false],
    [
      "a process on another socket that has the same name for its incarnation",
      true,
      listener("1"),
      listener("1", false, "/q.sock"),
      false,
    ],
  ] as const)("U1 answered by %s (told ABORTED: %s)", (_who, told, first, by, ends) => {
    const doubts = start();
    doubts.add(doubtOf("a", first, "t", told));
    doubts.ended({ subject: "a", listener: by, text: () => "another call" });
    expect(doubts.of("a") === undefined, "by another call").toBe(ends && first.gone());
    doubts.ended({ subject: "a", listener: by, text: () => "t" });
    expect(doubts.of("a") === undefined).toBe(ends);
  });

  it.each([
    ["cut off the call alone", false],
    ["said ABORTED", true],
  ] as const)("U1 answered by the next process on the socket of one that %s and went later", (_how, told) => {
    const doubts = start();
    let gone = false;
    doubts.add(doubtOf("a", { ...listener("1"), gone: () => gone }, "t", told));
    doubts.ended({ subject: "a", listener: listener("2"), text: () => "t" });
    expect(doubts.of("a")).toContain("t for a");
    gone = true;
    doubts.ended({ subject: "a", listener: listener("2"), text: () => "t" });
    expect(doubts.of("a")).toBeUndefined();
  });

  it("U1 ends no other doubt of the subject", () => {
    const doubts = start();
    doubts.add(doubtOf("a", listener("1", true), "u"));
    doubts.add(doubtOf("a", listener("2"), "t"));
    doubts.ended({ subject: "a", listener: listener("3"), text: () => "t" });
    expect(doubts.of("a")).toContain("t for a");
  });
});

describe("U2 more doubts than are remembered", () => {
  it("put every subject in doubt of which none is remembered, also one whose doubt was ended", () => {
    const doubts = start(2);
    for (const subject of ["a", "b"]) doubts.add(doubtOf(subject, listener("1"), "t", true));
    expect(doubts.of("c")).toBeUndefined();
    doubts.add(doubtOf("c", listener("1")));
    expect(doubts.of("a")).toContain("t for a");
    for (const subject of ["c", "d"]) expect(doubts.of(subject)).toContain("more than 2 calls");
    doubts.ended({ subject: "a", listener: listener("1"), text: () => "t" });
    expect(doubts.of("a")).toContain("more than 2 calls");
  });

  it("are not the repeats of one call, and those that ended leave their place to others", () => {
    const doubts = start(2);
    const first = listener("1");
    for (const _ of [1, 2, 3]) doubts.add(doubtOf("a", first, "t", true));
    doubts.ended({ subject: "a", listener: first, text: () => "t" });
    for (const subject of ["b", "c"]) doubts.add(doubtOf(subject, listener("1")));
    expect(doubts.of("a")).toBeUndefined();
  });
});
