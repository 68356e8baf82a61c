/**
 * One volume for a single writer, two controllers, two gates with a plugin behind each, two nodes; the product's code decides.
 *
 * The environment loses, delays and reorders what is on its way, ends processes at any point, lets plugins fail with or without their
 * effect, and lets any wait be over. A process that is paused or frozen is one that takes no step: each order of steps is searched.
 * Where gates are relays each has an inbox; else each is the socket beside the controller of its number, and dies with it.
 */

import { nameOnNode } from "../../../services/controller/src/domain/plugin/instance-name.ts";
import { isPending } from "../../../services/controller/src/domain/size/expansion.ts";
import { attachmentRecord, barRecord } from "../../../services/controller/src/domain/testing/record-fixtures.ts";
import { isModifying } from "../../../services/controller/src/domain/volume/modification.ts";
import type { Go, State, World } from "../search/search.ts";
import { handleOrder } from "./agent-rules.ts";
import { createClientMoves } from "./client-moves.ts";
import { createControllerMoves } from "./controller-moves.ts";
import { createEnvironmentMoves } from "./environment-moves.ts";
import { createGateMoves } from "./gate-moves.ts";
import { openAt, violation } from "./invariants.ts";
import type { OneVolumeOptions } from "./model-options.ts";
import type { AgentOrder, AgentTask, CallTask, Gate, Host, Memory, StoreFile } from "./model-types.ts";
import type { PlainRecord } from "./plain-record.ts";
import { createProductRules } from "./product-rules.ts";
import { at, numbers, part, places, read, symmetryOf } from "./state-places.ts";

const epoch = { gen: 1, ctr: 1 };
const asked = (op: "create" | "validate") => ({
  state: "CREATING" as const,
  intent: { op, issuer: "c1/1", opId: "#0", epoch: { gen: 1, ctr: 0 } },
});
const wanted = { ...asked("create"), externalId: "", capacity: { required: 1, limit: 1, actual: 0 } };

const pair = { accessMode: "SINGLE_NODE_WRITER" } as const;
const lateAttach = {
  op: "attach",
  opId: "#0",
  attachment: attachmentRecord("n1", { ...pair, state: "ATTACHING" }),
  issuer: "c1/1",
  since: 0,
} as const;

/** The record at first; its intent is of the first controller, which was asked for it. */
const beginnings: Readonly<Record<NonNullable<OneVolumeOptions["volume"]> | "standing", Partial<PlainRecord>>> = {
  standing: {},
  "asked for": wanted,
  placed: { ...wanted, binding: { node: "n1", place: { zone: "a" } } },
  registered: { ...asked("validate"), name: "" },
  held: {
    epoch,
    claims: { k1: { node: "n1", state: "ACTIVE", activeAt: 0, epoch, nodeEpoch: 1 } },
    attachments: { n1: attachmentRecord("n1", pair) },
  },
  barred: {},
};
/** The first gate has the overtaken call: in its only life, or in the one before where it is an agent. */
const barredAt = (relays: boolean): { readonly bars: PlainRecord["bars"]; readonly gate: Partial<Gate> } => {
  const { gate: _g, ...bar } = barRecord("n1", lateAttach);
  const call = { method: "ControllerPublishVolume", node: "n1" } as const;
  if (relays)
    return {
      bars: [{ ...bar, via: nameOnNode("model", "g1"), gate: "g1/1" }],
      gate: { life: 2, orphans: [call] },
    };
  const order = { sequence: "#0", opId: "#0" };
  return { bars: [{ ...bar, via: "/g1.sock" }], gate: { calls: [{ ...call, order }] } };
};
const permitOfHeld: AgentOrder = { kind: "permit", node: "n1", claim: "k1", epoch, oldest: epoch };

export const createOneVolume = (options: OneVolumeOptions): World => {
  const {
    gates,
    failures: _f,
    onTheWay: _o,
    silence: _s,
    volume = "standing",
    wish: _w,
    timeouts: _t,
    shares: _h,
    ...budget
  } = options;
  const relays = gates === "relays";
  const rules = createProductRules();
  const gateMoves = createGateMoves(rules);
  const { plan, callTask, agentTask, releasesAhead } = createControllerMoves(options, rules, gateMoves);
  const { ends, atGate, atHost } = createEnvironmentMoves(options, rules, gateMoves);
  const client = createClientMoves(options, rules);
  const { one, idOf, once } = rules;

  /** Who asked the gate of a bar last is read by that question alone: it is forgotten with the step that asked. */
  const withoutOldQuestions = (
    state: State,
    changed: Readonly<Record<number, object>>,
  ): Readonly<Record<number, object>> => {
    const { record } = (changed[places.store] ?? state[places.store]) as StoreFile;
    if (!record.bars.some(({ asked: who }) => who !== undefined)) return changed;
    const tasks = numbers.map((n) => (changed[at("call", n)] ?? state[at("call", n)]) as CallTask);
    const askedNow = tasks.map((task) => (task.phase === undefined ? "" : (task.past?.order.opId ?? "")));
    const kept = once(`bars|${idOf(record)}|${askedNow.join()}`, () => {
      const bars = record.bars.map(({ asked: who, ...bar }) =>
        one(who === undefined || !askedNow.includes(who.opId) ? bar : { ...bar, asked: who }),
      );
      return { record: one({ ...record, bars: one(bars) }) };
    });
    return { ...changed, [places.store]: kept };
  };

  const initial = (): State => {
    const state: object[] = [];
    state[places.store] = { record: { claims: {}, attachments: {}, bars: [], ...beginnings[volume] } };
    state[places.backend] = { attached: volume === "held" ? ["n1"] : [] };
    state[places.budget] = budget;
    for (const n of numbers) {
      state[at("memory", n)] = { life: 1, up: true };
      state[at("call", n)] = {};
      state[at("agent", n)] = {};
      state[at("gate", n)] = { life: 1, calls: [], raised: [], waiting: [], inbox: [], orphans: [] };
      state[at("host", n)] = { mounted: [] };
    }
    if (volume === "barred") {
      const { bars, gate } = barredAt(relays);
      state[places.store] = { record: { claims: {}, attachments: {}, bars } };
      state[at("gate", 1)] = { ...state[at("gate", 1)], ...gate };
    }
    if (volume === "held") state[at("host", 1)] = handleOrder({ mounted: [] }, permitOfHeld, true, "done").host;
    return state;
  };

  return {
    initial: initial(),
    symmetries: (relays ? ["c", "g", "n", "cg", "cn", "gn", "cgn"] : ["cg", "n", "cgn"]).map(symmetryOf),
    next(state, tell) {
      const go: Go = (action, detail, changed) => tell(action, detail, withoutOldQuestions(state, changed));
      client(state, go);
      releasesAhead(state, go);
      for (const n of numbers) {
        if (part<Memory>(state, at("memory", n)).up) {
          plan(state, n, go);
          callTask(state, n, go);
          agentTask(state, n, go);
        }
        ends(state, n, go);
        atGate(state, n, go);
        atHost(state, n, go);
      }
    },
    violated(state) {
      const { record, backend } = read(state);
      return violation({
        record,
        backend,
        gates: numbers.map((n) => part<Gate>(state, at("gate", n))),
        hosts: new Map(numbers.map((n) => [`n${n}`, part<Host>(state, at("host", n))])),
      });
    },
    isClean(state) {
      const { record, backend } = read(state);
      return (
        Object.keys(record.claims).length === 0 &&
        Object.keys(record.attachments).length === 0 &&
        record.intent === undefined &&
        record.bars.length === 0 &&
        !isPending(record.expansion) &&
        !isModifying(record.modification) &&
        backend.attached.length === 0 &&
        numbers.every((n) => {
          const gate = part<Gate>(state, at("gate", n));
          const host = part<Host>(state, at("host", n));
          return (
            part<Memory>(state, at("memory", n)).up &&
            part<CallTask>(state, at("call", n)).phase === undefined &&
            part<AgentTask>(state, at("agent", n)).phase === undefined &&
            gate.inbox.length === 0 &&
            openAt(gate).length === 0 &&
            host.mounted.length === 0 &&
            host.late === undefined
          );
        })
      );
    },
  };
};
