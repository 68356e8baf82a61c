import { describe, expect, it } from "vitest";
import { noAttempts } from "../outcome.ts";
import { volumeRecord } from "../testing/record-fixtures.ts";
import { type ExpandFacts, expandPlanOf } from "./expand-plan.ts";
import { judgeWish } from "./expand-wish.ts";
import type { Expansion } from "./expansion.ts";

const expansion = (changes: Partial<Expansion>): Expansion => ({
  state: "WANTED",
  target: { required: 200, limit: 0 },
  onlyUnused: false,
  attempts: noAttempts,
  since: 1,
  ...changes,
});
const sized = (actual: number, wanted?: Expansion) =>
  volumeRecord([], [], {
    capacity: { required: 100, limit: 0, actual },
    ...(wanted === undefined ? {} : { expansion: wanted }),
  });

describe("[X34] what a request for a size means", () => {
  const uncertain = expansion({ state: "UNCERTAIN", uncertainSince: 1 });
  it.each([
    ["it has it", sized(100), { required: 100, limit: 0 }, { kind: "has" }],
    ["it has more", sized(100), { required: 50, limit: 0 }, { kind: "has" }],
    ["nobody said how much it has", sized(0), { required: 100, limit: 0 }, { kind: "has" }],
    ["more", sized(100), { required: 101, limit: 150 }, { kind: "wish", range: { required: 101, limit: 150 } }],
    ["a limit below what it has", sized(100), { required: 50, limit: 99 }, { kind: "shrinks", size: 100 }],
    ["less than is wanted", sized(100, expansion({})), { required: 150, limit: 0 }, { kind: "has" }],
    ["what is wanted", sized(100, expansion({})), { required: 200, limit: 0 }, { kind: "has" }],
    [
      "more than is wanted",
      sized(100, expansion({})),
      { required: 300, limit: 0 },
      { kind: "wish", range: { required: 300, limit: 0 } },
    ],
    [
      "a limit beside what is wanted",
      sized(100, expansion({})),
      { required: 150, limit: 250 },
      { kind: "wish", range: { required: 200, limit: 250 } },
    ],
    [
      "a limit below what is wanted",
      sized(100, expansion({})),
      { required: 150, limit: 160 },
      { kind: "wish", range: { required: 150, limit: 160 } },
    ],
    ["nothing more after all", sized(100, expansion({})), { required: 100, limit: 150 }, { kind: "give-up" }],
    [
      "the same below, and the backend may be beyond it",
      sized(100, uncertain),
      { required: 150, limit: 160 },
      { kind: "wish", range: { required: 150, limit: 0 } },
    ],
    [
      "the least, and the backend may be beyond it",
      sized(100, uncertain),
      { required: 1, limit: 100 },
      { kind: "wish", range: { required: 100, limit: 0 } },
    ],
    ["a limit for what is called for already", sized(100, uncertain), { required: 200, limit: 250 }, { kind: "has" }],
    [
      "more than the wish before allows",
      sized(100, expansion({ target: { required: 200, limit: 250 } })),
      { required: 300, limit: 0 },
      { kind: "clashes", standing: { required: 200, limit: 250 } },
    ],
    [
      "more than comes next",
      sized(100, expansion({ state: "CALLING", next: { required: 300, limit: 0 } })),
      { required: 250, limit: 0 },
      { kind: "has" },
    ],
    [
      "anything after a refusal",
      sized(100, expansion({ state: "REFUSED" })),
      { required: 150, limit: 0 },
      { kind: "wish", range: { required: 150, limit: 0 } },
    ],
  ] as const)("%s", (_, volume, range, verdict) => {
    expect(judgeWish(volume, range)).toEqual(verdict);
  });
});

describe("[C59] [O55] which way a plugin grows a volume", () => {
  const facts = { onController: "yes", online: "no", offline: "no", onNodes: "unknown", assumed: "offline" } as const;
  it.each([
    ["any-time", { online: "yes" }],
    ["any-time", { online: "yes", offline: "yes" }],
    ["only-unused", { offline: "yes" }],
    ["assumed-unused", {}],
    ["any-time", { assumed: "online" }],
    ["cannot", { assumed: "none" }],
    ["unknown", { online: "unknown" }],
    ["unknown", { offline: "unknown" }],
    ["unknown", { onController: "unknown", online: "yes" }],
    ["by-nodes", { onController: "no", onNodes: "yes" }],
    ["cannot", { onController: "no", onNodes: "no" }],
    ["unknown", { onController: "no", onNodes: "unknown" }],
  ] as const)("%s: %j", (plan, changes: Partial<ExpandFacts>) => {
    expect(expandPlanOf({ ...facts, ...changes })).toBe(plan);
  });
});
