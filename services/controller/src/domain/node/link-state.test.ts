import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type Absence,
  absenceFrom,
  absenceSeeing,
  doubtName,
  isMarked,
  type LinkMarks,
  linkDecision,
  withoutMarks,
} from "./link-state.ts";

const grace = 120;
/** What one controller writes, the others learn after so long. */
const newsDelay = 5;
const controllers = ["a", "b", "c"] as const;
type Name = (typeof controllers)[number];

interface Controller {
  running: boolean;
  linked: boolean;
  absence: Absence;
  /** When its stream was there last. */
  hadAt: number;
  /** What it is still to learn: the revision of the record, and when. */
  news: { readonly at: number; readonly marks: LinkMarks; readonly own: boolean }[];
  known: LinkMarks;
  knownRev: number;
}

type Event =
  | { readonly kind: "link" | "unlink" | "crash" | "start"; readonly who: Name }
  | { readonly kind: "pass"; readonly ms: number };

/** Two or three controllers over one record that is compared and set; an agent that dials and goes away as the events say. */
const createCell = (names: readonly Name[]) => {
  let now = 0;
  let rev = 0;
  let marks: LinkMarks = {};
  const losses: { readonly at: number; readonly had: readonly number[] }[] = [];
  const fresh = (): Controller => ({
    ...{ running: true, linked: false, hadAt: Number.NEGATIVE_INFINITY, news: [], known: marks, knownRev: rev },
    absence: absenceFrom("awaited", marks, now, grace),
  });
  const all = new Map(names.map((name) => [name, fresh()]));
  const of = (name: Name): Controller | undefined => all.get(name);

  const see = (one: Controller, seen: LinkMarks, own: boolean): void => {
    one.known = seen;
    if (!one.linked) one.absence = absenceSeeing(one.absence, seen, { own, now, graceMs: grace });
  };

  const write = (by: Controller, next: LinkMarks): void => {
    // Compared with the record: who is behind reads first, and decides again at the next moment.
    if (by.knownRev !== rev) {
      by.news = [];
      by.knownRev = rev;
      see(by, marks, false);
      return;
    }
    rev += 1;
    marks = next;
    by.knownRev = rev;
    see(by, next, true);
    for (const other of all.values())
      if (other !== by) other.news.push({ at: now + newsDelay, marks: next, own: false });
  };

  const act = (name: Name, one: Controller): void => {
    if (!one.running) return;
    if (one.linked) one.hadAt = now;
    while ((one.news[0]?.at ?? Number.POSITIVE_INFINITY) <= now) {
      see(one, one.news[0]?.marks ?? {}, false);
      one.news.shift();
      if (one.news.length === 0) one.knownRev = rev;
    }
    if (one.linked) {
      if (isMarked(one.known)) write(one, withoutMarks(one.known));
      return;
    }
    const { step } = linkDecision(one.absence, now, grace);
    if (step === "doubt") write(one, { linkDoubt: { by: name, at: now } });
    if (step === "lose") {
      const before = rev;
      write(one, { linkLost: { at: now } });
      if (rev !== before)
        losses.push({ at: now, had: [...all.values()].filter((it) => it.running).map(({ hadAt }) => hadAt) });
    }
  };

  return {
    marks: () => marks,
    now: () => now,
    losses,
    of,
    apply(event: Event): void {
      if (event.kind === "pass") {
        for (let n = 0; n < event.ms; n += 1) {
          now += 1;
          for (const [name, one] of all) act(name, one);
        }
        return;
      }
      const one = of(event.who);
      if (one === undefined) return;
      if (event.kind === "start" && !one.running) all.set(event.who, fresh());
      if (event.kind === "crash") one.running = false;
      if (!one.running) return;
      if (event.kind === "unlink" && one.linked) {
        one.linked = false;
        one.hadAt = now;
        one.absence = absenceFrom("ended", one.known, now, grace);
      }
      if (event.kind === "link" && !one.linked) {
        one.linked = true;
        one.hadAt = now;
        // Its registration is a commit.
        while (isMarked(marks)) write(one, {});
      }
    },
  };
};

const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({
    kind: fc.constantFrom("link", "link", "unlink", "unlink", "crash", "start"),
    who: fc.constantFrom(...controllers),
  }),
  fc.record({ kind: fc.constant("pass"), ms: fc.oneof(fc.nat(grace / 2), fc.nat(12 * grace)) }),
);
const history = fc.record({
  names: fc.constantFrom<readonly Name[]>(["a", "b"], ["a", "b", "c"]),
  events: fc.array(event, { maxLength: 40 }),
});

const runs = { numRuns: 400 };

test("[LS1] a link is never called lost while a controller that runs has had it within the grace", () => {
  let losses = 0;
  fc.assert(
    fc.property(history, ({ names, events }) => {
      const cell = createCell(names);
      for (const one of events) cell.apply(one);
      losses += cell.losses.length;
      for (const { at, had } of cell.losses)
        for (const last of had) expect(at - last).toBeGreaterThanOrEqual(grace - newsDelay);
    }),
    runs,
  );
  expect(losses, "a run in which no link is lost proves nothing").toBeGreaterThan(100);
});

test("[LS2] two graces after the last controller that runs has lost it, it is lost", () => {
  fc.assert(
    fc.property(history, fc.constantFrom(...controllers), ({ names, events }, last) => {
      const cell = createCell(names);
      for (const one of events) cell.apply(one);
      if (cell.of(last)?.running !== true) return;
      cell.apply({ kind: "link", who: last });
      cell.apply({ kind: "pass", ms: newsDelay });
      for (const who of names) if (who !== last) cell.apply({ kind: "unlink", who });
      cell.apply({ kind: "unlink", who: last });
      cell.apply({ kind: "pass", ms: 2 * grace });
      expect(cell.marks().linkLost).toBeDefined();
    }),
    runs,
  );
});

test("[LS3] and twelve graces after the last one that had it has died, as long as any controller runs", () => {
  fc.assert(
    fc.property(history, ({ names, events }) => {
      const cell = createCell(names);
      for (const one of events) cell.apply(one);
      const left = names.filter((who) => cell.of(who)?.running === true && cell.of(who)?.linked !== true);
      for (const who of names) if (!left.includes(who)) cell.apply({ kind: "crash", who });
      if (left.length === 0) return;
      cell.apply({ kind: "pass", ms: 12 * grace });
      expect(cell.marks().linkLost).toBeDefined();
    }),
    runs,
  );
});

test("after any order of events a node is READY again as soon as one controller has its link, and nothing is written from then on", () => {
  fc.assert(
    fc.property(history, ({ names, events }) => {
      const cell = createCell(names);
      for (const one of events) cell.apply(one);
      for (const who of names) cell.apply({ kind: "start", who });
      cell.apply({ kind: "link", who: "a" });
      cell.apply({ kind: "pass", ms: 2 * newsDelay });
      expect(cell.marks().linkLost).toBeUndefined();
      const before = cell.losses.length;
      cell.apply({ kind: "pass", ms: 30 * grace });
      expect(cell.losses).toHaveLength(before);
      for (const who of names) cell.apply({ kind: "link", who });
      cell.apply({ kind: "pass", ms: 2 * newsDelay });
      expect(cell.marks()).toEqual({});
      cell.apply({ kind: "pass", ms: 30 * grace });
      expect(cell.marks()).toEqual({});
    }),
    runs,
  );
});

test("[LS4] a controller that has just started says nothing about a node for a grace, even where a doubt of before stands", () => {
  const doubted = { linkDoubt: { by: "a", at: 1 } };
  for (const marks of [{}, doubted]) {
    const absence = absenceFrom("awaited", marks, 0, grace);
    expect(linkDecision(absence, grace - 1, grace)).toEqual({ step: "rest", due: grace });
    expect(linkDecision(absence, grace, grace).step).toBe("doubt");
  }
});

test("[LS2] controllers that lose a link at about the same time write one doubt", () => {
  const second = absenceFrom("ended", {}, 2, grace);
  const seen = absenceSeeing(second, { linkDoubt: { by: "a", at: 1 } }, { own: false, now: 40, graceMs: grace });
  expect(linkDecision(seen, 44, grace)).toEqual({ step: "rest", due: 130 });
  const late = absenceFrom("ended", {}, 30, grace);
  const replaced = absenceSeeing(late, { linkDoubt: { by: "a", at: 1 } }, { own: false, now: 40, graceMs: grace });
  expect(linkDecision(replaced, 70, grace).step).toBe("doubt");
});

test("[LS3] an answered doubt is written again after ten graces, one that this controller removed itself at its own time", () => {
  const doubt = { linkDoubt: { by: "a", at: 1 } };
  const asked = absenceFrom("ended", doubt, 0, grace);
  const answered = absenceSeeing(asked, {}, { own: false, now: 50, graceMs: grace });
  expect(linkDecision(answered, 60, grace)).toEqual({ step: "rest", due: 50 + 10 * grace });
  const own = absenceSeeing(asked, {}, { own: true, now: 50, graceMs: grace });
  expect(linkDecision(own, 60, grace).step).toBe("doubt");
});

test("a doubt has the name of its writer and of its moment", () => {
  expect(doubtName({})).toBeUndefined();
  expect(doubtName({ linkDoubt: { by: "a", at: 1 } })).not.toBe(doubtName({ linkDoubt: { by: "a", at: 2 } }));
});
