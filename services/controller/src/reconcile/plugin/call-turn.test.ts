import { expect, it } from "vitest";
import type { CallSite, Seat } from "../../domain/open-call.ts";
import { type CallRights, patienceMs, turnOf } from "./call-turn.ts";

const now = 100_000;
const here: Seat = { via: "node g1: p", gate: "life-2" };
const elsewhere: Seat = { via: "node g2: p", gate: "life-1" };
const beside: Seat = { via: "/run/p.sock" };

interface Situation {
  readonly intent?: Partial<CallSite> & { readonly op?: string };
  readonly drives?: boolean;
  readonly away?: boolean;
  /** Instances that can be called: the record's own choice first. */
  readonly callable?: readonly Seat[];
  readonly bars?: number;
  readonly format?: boolean;
  /** The life of the agent that is there now speaks for no incarnation of its node before this one. */
  readonly speaksFrom?: number;
}

const turn = ({
  intent,
  drives = true,
  away = false,
  callable = [],
  bars = 0,
  format = true,
  speaksFrom = 0,
}: Situation) => {
  const rights: CallRights = {
    issuer: "me/2",
    isFormerLife: (issuer) => issuer === "me/1",
    drives: () => drives,
    isAway: () => away,
    instance: ({ via, gateEpoch = speaksFrom }) =>
      via === undefined ? callable[0] : callable.find((one) => one.via === via && gateEpoch >= speaksFrom),
    bars: () => format,
  };
  const site = intent && { op: "detach", issuer: "me/2", opId: "o", ...intent };
  const record = {
    plugin: "p",
    updatedAt: now,
    ...(site === undefined ? {} : { intent: site }),
    bars: Array.from({ length: bars }, () => ({})),
  };
  const { kind, ...rest } = turnOf(rights, "ns/v", record, now);
  return "seat" in rest ? [kind, rest.seat] : "failure" in rest ? [kind, rest.failure.reason] : [kind];
};

const open = { via: here.via, gate: "life-1", openSince: now - patienceMs };
const theirs = { ...open, issuer: "other/1" };
const theirSocket = { ...beside, issuer: "other/1", openSince: 1 };

it.each<[string, Situation, readonly unknown[]]>([
  ["no intent", {}, ["run"]],
  ["no intent, another's share", { drives: false }, ["wait"]],
  ["an intent without an instance", { intent: {}, callable: [here] }, ["take", here]],
  ["the same, and no instance", { intent: {} }, ["run"]],
  ["the same, another's share", { intent: {}, callable: [here], drives: false }, ["wait"]],
  ["a question without an instance", { intent: { op: "validate" }, callable: [here] }, ["run"]],

  ["its own call, at an instance that answers", { intent: open, callable: [here, elsewhere] }, ["run"]],
  ["its own call that never left", { intent: { via: here.via } }, ["run"]],
  [
    "its own, where another machine, or a copy, has the name of the node now",
    { intent: { ...open, gateEpoch: 1 }, callable: [here], speaksFrom: 2 },
    ["overtake", here],
  ],
  [
    "its own, where a later boot of the node is proved",
    { intent: { ...open, gateEpoch: 2 }, callable: [here], speaksFrom: 2 },
    ["run"],
  ],
  [
    "another's, who is away, where another machine has the name of the node now",
    { intent: { ...theirs, gateEpoch: 1 }, away: true, callable: [here], speaksFrom: 2 },
    ["overtake", here],
  ],
  [
    "its own, at one that does not answer, with another",
    { intent: open, callable: [elsewhere] },
    ["overtake", elsewhere],
  ],
  ["the same, just now", { intent: { ...open, openSince: now }, callable: [elsewhere] }, ["wait"]],
  ["the same, without another", { intent: open }, ["blocked", "CALL_MAY_BE_OPEN"]],
  [
    "the same, with as many bars as there may be",
    { intent: open, callable: [elsewhere], bars: 8 },
    ["blocked", "CALL_MAY_BE_OPEN"],
  ],
  [
    "the same, in a store whose format has no bars",
    { intent: open, callable: [elsewhere], format: false },
    ["blocked", "CALL_MAY_BE_OPEN"],
  ],

  [
    "of a former life, at an instance that answers",
    { intent: { ...open, issuer: "me/1" }, callable: [here] },
    ["inherit", here],
  ],
  [
    "the same, that names no life of its agent, as of an earlier release",
    { intent: { via: here.via, openSince: 1 }, callable: [elsewhere] },
    ["blocked", "CALL_MAY_BE_OPEN"],
  ],
  [
    "its own, at one that does not answer, without another, in another's share",
    { intent: open, drives: false },
    ["overtake"],
  ],
  ["the same, just now", { intent: { ...open, openSince: now }, drives: false }, ["wait"]],
  ["the same, another controller's call", { intent: theirs, away: true, drives: false }, ["wait"]],
  [
    "of a former life, at one that does not",
    { intent: { ...open, issuer: "me/1" }, callable: [elsewhere] },
    ["inherit", { via: here.via, gate: "life-1" }],
  ],

  ["another's, who is there", { intent: theirs, callable: [here, elsewhere] }, ["wait"]],
  [
    "another's, who is away, not this one's share",
    { intent: theirs, away: true, drives: false, callable: [here] },
    ["wait"],
  ],
  [
    "another's, who is away, at an agent that answers",
    { intent: theirs, away: true, callable: [here] },
    ["inherit", here],
  ],
  [
    "another's, who is away, at an agent that does not",
    { intent: theirs, away: true, callable: [elsewhere] },
    ["overtake", elsewhere],
  ],
  ["another's, who is away, and no other instance", { intent: theirs, away: true }, ["blocked", "CALL_MAY_BE_OPEN"]],
  [
    "another's, who is away, at a socket beside him: one of the same path here is another gate",
    { intent: theirSocket, away: true, callable: [beside] },
    ["overtake", beside],
  ],
])("%s", (_, situation, expected) => {
  expect(turn(situation)).toEqual(expected);
});
