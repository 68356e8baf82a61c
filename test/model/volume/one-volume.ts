/**
 * One volume for a single writer, two controllers, two gates with a plugin behind each, two nodes; the product's code decides.
 *
 * The environment loses, delays and reorders what is on its way, ends processes at any point, lets plugins fail with or without their
 * effect, and lets any wait be over. A process that is paused or frozen is one that takes no step: each order of steps is searched.
 * Where gates are relays each has an inbox; else each is the socket beside the controller of its number, and dies with it.
 */
import { withClaim } from "../../../services/controller/src/domain/change.ts";
import { releaseWanted } from "../../../services/controller/src/domain/claim/claim-change.ts";
import type { Moment } from "../../../services/controller/src/domain/moment.ts";
import { defaultRetry } from "../../../services/controller/src/domain/retry.ts";
import { planSteps, type Step } from "../../../services/controller/src/domain/steps.ts";
import { type Go, NotYetKnown, type State, type Symmetry, type World } from "../search/search.ts";
import { type Handled, handleOrder, type StageFate, stageFates } from "./agent-rules.ts";
import { controllerRun, freshMark, type RunInput, type RunOutput } from "./controller-run.ts";
import { type Passage, passGate } from "./gate-rules.ts";
import { openAt, violation } from "./invariants.ts";
import {
  type AgentOrder,
  type AgentTask,
  type Backend,
  type Budget,
  type CallTask,
  type Gate,
  type Host,
  type Memory,
  type PluginCall,
  type Reply,
  replies,
  type SentCall,
  type StoreFile,
} from "./model-types.ts";
import { firstClaim, type PlainRecord, plainRecord, recordFor, wholeRecord } from "./plain-record.ts";
import { createSharedValues } from "./shared-values.ts";

export interface OneVolumeOptions extends Budget {
  readonly gates: "relays" | "sockets";
  /** Calls that are sent and have not arrived, at most; the same call twice counts once. */
  readonly onTheWay: number;
  /** Replies of plugins besides OK. */
  readonly failures: readonly { readonly reply: Reply; readonly effect: boolean; readonly of?: PluginCall["method"] }[];
}

const places = { store: 0, memory: 1, call: 3, agent: 5, gate: 7, host: 9, backend: 11, budget: 12 } as const;
const numbers = [1, 2] as const;
type Number2 = (typeof numbers)[number];
const at = (place: keyof typeof places, n: Number2): number => places[place] + n - 1;
const gateNames = numbers.map((n) => `g${n}`);
const numberOf = (name: string): Number2 => (name.endsWith("1") ? 1 : 2);
const hurry = 0;

const swap = (letters: string): ReadonlyMap<string, string> =>
  new Map([...letters].flatMap((l) => [[`${l}1`, `${l}2`] as const, [`${l}2`, `${l}1`] as const]));
const swappedPlaces: Readonly<Record<string, readonly (keyof typeof places)[]>> = {
  c: ["memory", "call", "agent"],
  g: ["gate"],
  n: ["host"],
};
const symmetryOf = (letters: string): Symmetry => {
  const turned = Array.from({ length: places.budget + 1 }, (_, i) => i);
  for (const place of [...letters].flatMap((l) => swappedPlaces[l] ?? []))
    [turned[at(place, 1)], turned[at(place, 2)]] = [at(place, 2), at(place, 1)];
  return { names: swap(letters), places: turned };
};

export const createOneVolume = (options: OneVolumeOptions): World => {
  const { gates, failures, onTheWay, ...budget } = options;
  const relays = gates === "relays";
  const shared = createSharedValues();
  const { one, idOf } = shared;
  const plans = new WeakMap<PlainRecord, readonly Step[]>();
  const runs = new Map<string, RunOutput>();
  const passages = new Map<string, Passage>();
  const moment: Moment = { now: 0, issuer: "client", opId: freshMark, random: 0.5, retry: defaultRetry };
  const idle = one<CallTask>({});
  const quiet = one<AgentTask>({});

  const asked = <T>(known: Map<string, T>, key: string, work: () => Promise<T>): T => {
    const found = known.get(key);
    if (found !== undefined) return found;
    throw new NotYetKnown(work().then((answer) => known.set(key, answer)));
  };
  /** Of rules that answer at once. */
  const worked = new Map<string, object>();
  const once = <T extends object>(key: string, work: () => T): T => {
    const known = worked.get(key);
    if (known !== undefined) return known as T;
    const found = one(work());
    worked.set(key, found);
    return found;
  };
  const handled = (host: Host, order: AgentOrder, attached: boolean, fate: StageFate): Handled =>
    once(`agent|${idOf(host)}|${idOf(order)}|${attached}|${fate}`, () => {
      const { host: after, answer } = handleOrder(host, order, attached, fate);
      return { host: one(after), answer };
    });
  const forStep = (record: PlainRecord, step: Step): PlainRecord =>
    once(`for|${idOf(record)}|${idOf(step)}`, () => recordFor(record, step));
  const planOf = (record: PlainRecord): readonly Step[] => {
    const known = plans.get(record);
    if (known !== undefined) return known;
    const steps = planSteps(wholeRecord(record), hurry, true).ready.map((step) => one(step));
    plans.set(record, steps);
    return steps;
  };
  const sharedOutput = ({ stored, order, left, ...rest }: RunOutput): RunOutput => ({
    ...rest,
    ...(stored === undefined ? {} : { stored: one(stored) }),
    ...(order === undefined ? {} : { order: one(order) }),
    ...(left === undefined ? {} : { left: one({ ...left, order: one(left.order) }) }),
  });
  const run = (input: RunInput): RunOutput => {
    const { issuer, step, planned, stored, order, unstored, seat, patient, until } = input;
    const orderId = order === undefined ? "" : idOf(order);
    const key = `${issuer}|${idOf(step)}|${idOf(planned)}|${idOf(stored)}|${orderId}|${unstored ?? ""}|${seat}|${patient}|${until}`;
    return asked(runs, key, async () => sharedOutput(await controllerRun(input)));
  };
  const passage = (last: Gate["last"], call: SentCall): Passage => {
    const key = `${last === undefined ? "" : idOf(last)}|${call.method}|${call.node}|${idOf(call.order)}`;
    return asked(passages, key, () => passGate(last, call));
  };

  const part = <T extends object>(state: State, place: number): T => state[place] as T;
  const read = (state: State) => {
    const { record } = part<StoreFile>(state, places.store);
    return { record, left: part<Budget>(state, places.budget), backend: part<Backend>(state, places.backend) };
  };
  const issuerOf = (n: Number2, { life }: Memory): string => `c${n}/${life}`;

  /** The memory of a controller after a run; what no step will ask for again is forgotten. */
  const remembering = (memory: Memory, record: PlainRecord, { order, unstored }: RunOutput): Memory => {
    const opId = record.intent?.opId;
    return one({
      life: memory.life,
      up: memory.up,
      ...(order !== undefined && order.opId === opId ? { order } : {}),
      ...(unstored !== undefined && unstored === opId ? { unstored } : {}),
    });
  };
  const withoutWaiter = (gate: Gate, issuer: string): Gate =>
    gate.waiting.some((w) => w.issuer === issuer)
      ? one({ ...gate, waiting: one(gate.waiting.filter((w) => w.issuer !== issuer)) })
      : gate;
  const without = <T>(list: readonly T[], index: number): readonly T[] =>
    one(list.filter((_, i) => i !== index) as T[] & object);
  const sorted = <T extends object>(list: readonly T[]): readonly T[] =>
    one([...list].sort((a, b) => idOf(a) - idOf(b)));

  /** A call comes to a gate: to the plugin, to its open call, or back. */
  const arrive = (gate: Gate, issuer: string, call: SentCall): { readonly gate: Gate; readonly reply?: Reply } => {
    if (call.gate !== undefined && call.gate !== `${call.via}/${gate.life}`) return { gate, reply: "BUSY" };
    const passed = passage(gate.last, call);
    if (passed !== "sent" && passed !== "joined") return { gate, reply: passed };
    const last = one({ method: call.method, node: call.node, order: call.order });
    const waiting = sorted([...gate.waiting, one({ issuer, order: call.order })]);
    return { gate: one({ ...gate, last, waiting }) };
  };
  const answeredTask = (task: CallTask, reply: Reply): CallTask =>
    task.phase === "called" ? one({ ...task, answer: reply }) : task;

  const plan = (state: State, n: Number2, go: Go): void => {
    const { record, left } = read(state);
    const memory = part<Memory>(state, at("memory", n));
    const { order, unstored } = memory;
    const issuer = issuerOf(n, memory);
    const busy = part<CallTask>(state, at("call", n)).phase !== undefined;
    const asking = part<AgentTask>(state, at("agent", n)).phase !== undefined;
    const stores = (step: Step, output: RunOutput): void => {
      if (output.stored === undefined) return;
      go(`store ${step.do}`, `c${n}`, {
        [places.store]: one({ record: output.stored }),
        [at("memory", n)]: remembering(memory, output.stored, output),
      });
    };
    const seats: readonly (string | null)[] = relays ? [...gateNames, null] : [`g${n}`, null];
    for (const step of planOf(record)) {
      const onAgent = step.lane.startsWith("node ");
      if (onAgent ? asking : step.lane !== "grant" && busy) continue;
      for (const patient of [false, true])
        for (const seat of seats) {
          const input = { issuer, step, planned: record, stored: record, order, unstored, seat, patient } as const;
          const output = run({ ...input, until: "call" });
          stores(step, output);
          if (output.waits)
            go(`plan ${step.do}`, `c${n}`, { [at("call", n)]: one({ phase: "leaving", step, record: forStep(record, step) }) });
          if (output.asked !== undefined) {
            const ask = output.asked;
            const place = places.host + numberOf(ask.node) - 1;
            const host = part<Host>(state, place);
            const attached = read(state).backend.attached.includes(ask.node);
            for (const fate of ask.kind === "permit" && attached ? stageFates : (["done"] as const)) {
              const { host: after, answer } = handled(host, ask, attached, fate);
              const task = one<AgentTask>({ phase: "asked", step, record: forStep(record, step), answer });
              go(`${ask.kind} ${answer}`, `${ask.claim} on ${ask.node}, asked by c${n}`, {
                [place]: after,
                [at("agent", n)]: task,
              });
            }
            if (host.late === undefined && left.lateOrders > 0)
              go(`${ask.kind} delayed`, `${ask.claim} on ${ask.node}, asked by c${n}`, {
                [place]: one({ ...host, late: ask }),
                [places.budget]: one({ ...left, lateOrders: left.lateOrders - 1 }),
              });
          }
          if (output.seated !== undefined) continue;
          break;
        }
    }
  };

  const callTask = (state: State, n: Number2, go: Go): void => {
    const { record } = read(state);
    const memory = part<Memory>(state, at("memory", n));
    const task = part<CallTask>(state, at("call", n));
    const issuer = issuerOf(n, memory);
    const { order, unstored } = memory;
    if (task.phase === "leaving") {
      const input = { issuer, step: task.step, planned: task.record, stored: record, order, unstored, patient: false };
      const sends = run({ ...input, seat: null, until: "gone" });
      const { left } = sends;
      const place = left === undefined ? undefined : at("gate", numberOf(left.via));
      if (left === undefined || place === undefined)
        go("give up a call", `c${n}`, { [at("call", n)]: idle, [at("memory", n)]: remembering(memory, record, sends) });
      else {
        const gate = part<Gate>(state, place);
        const words = `${left.method} for ${left.node} through ${left.via} by c${n}`;
        const called: CallTask = {
          phase: "called",
          step: task.step,
          record: forStep(record, task.step),
          before: unstored === left.order.opId,
          call: left,
        };
        const next = remembering(memory, record, sends);
        if (relays) {
          const sent = one({ ...left, issuer });
          const there = numbers.flatMap((g) => part<Gate>(state, at("gate", g)).inbox);
          if (there.length >= onTheWay && !there.includes(sent)) return;
          const inbox = there.includes(sent) ? gate.inbox : sorted([...gate.inbox, sent]);
          go("send", words, {
            [place]: one({ ...gate, inbox }),
            [at("call", n)]: one(called),
            [at("memory", n)]: next,
          });
        } else {
          const { gate: after, reply } = arrive(gate, issuer, left);
          const waiting = one(called);
          go("send", words, {
            [place]: after,
            [at("call", n)]: reply === undefined ? waiting : answeredTask(waiting, reply),
            [at("memory", n)]: next,
          });
        }
      }
      const away = run({ ...input, seat: null, until: "away" });
      go("no way to the gate", `c${n}`, {
        ...(away.stored === undefined ? {} : { [places.store]: one({ record: away.stored }) }),
        [at("call", n)]: idle,
        [at("memory", n)]: remembering(memory, away.stored ?? record, away),
      });
    }
    if (task.phase !== "called") return;
    const { step, call, before, answer } = task;
    const settle = (reply: Reply, action: string): void => {
      const output = run({
        issuer,
        step,
        planned: task.record,
        seen: task.record,
        stored: record,
        order: call.order,
        unstored: before ? call.order.opId : undefined,
        seat: null,
        patient: false,
        until: reply,
      });
      const after = output.stored ?? record;
      // An order that was forgotten as stale stays forgotten; any other memory is the memory of now.
      const kept = output.stored === undefined && output.order !== undefined ? { ...output, order } : output;
      const place = at("gate", numberOf(call.via));
      go(action, `c${n}: ${reply} for ${call.method} for ${call.node}`, {
        ...(output.stored === undefined ? {} : { [places.store]: one({ record: output.stored }) }),
        [at("call", n)]: idle,
        [at("memory", n)]: remembering(memory, after, kept as RunOutput),
        [place]: withoutWaiter(part<Gate>(state, place), issuer),
      });
    };
    if (answer !== undefined) settle(answer, "take an answer");
    if (answer === undefined || replies[answer].sent) settle("DEADLINE_EXCEEDED", "wait no longer");
  };

  const agentTask = (state: State, n: Number2, go: Go): void => {
    const { record } = read(state);
    const memory = part<Memory>(state, at("memory", n));
    const { order, unstored } = memory;
    const task = part<AgentTask>(state, at("agent", n));
    if (task.phase === undefined) return;
    const { step, answer } = task;
    const output = run({
      issuer: issuerOf(n, memory),
      step,
      planned: task.record,
      stored: record,
      order,
      unstored,
      seat: relays ? "g1" : `g${n}`,
      patient: false,
      until: answer,
    });
    go("store an agent's answer", `c${n}: ${answer}`, {
      ...(output.stored === undefined ? {} : { [places.store]: one({ record: output.stored }) }),
      [at("agent", n)]: quiet,
      [at("memory", n)]: remembering(memory, output.stored ?? record, output),
    });
    go("lose an agent's answer", `c${n}: ${answer}`, { [at("agent", n)]: quiet });
  };

  const ends = (state: State, n: Number2, go: Go): void => {
    const { left } = read(state);
    const memory = part<Memory>(state, at("memory", n));
    if (!memory.up) {
      go("start a controller", `c${n}`, { [at("memory", n)]: one({ life: memory.life + 1, up: true }) });
      return;
    }
    if (left.kills === 0) return;
    const issuer = issuerOf(n, memory);
    const gatesAfter = numbers.map((g) => {
      const gate = part<Gate>(state, at("gate", g));
      const over = relays || g !== n ? withoutWaiter(gate, issuer) : nextLife(gate);
      return [at("gate", g), over] as const;
    });
    go("kill a controller", `c${n}`, {
      [at("memory", n)]: one({ life: memory.life, up: false }),
      [at("call", n)]: idle,
      [at("agent", n)]: quiet,
      [places.budget]: one({ ...left, kills: left.kills - 1 }),
      ...Object.fromEntries(gatesAfter),
    });
  };

  /** The memory of a gate is gone; its plugin goes on with what it has. */
  const nextLife = (gate: Gate): Gate =>
    one({
      life: gate.life + 1,
      waiting: one([]),
      inbox: gate.inbox,
      orphans: one(openAt(gate).map(({ method, node }) => one({ method, node }))),
    });

  const atGate = (state: State, g: Number2, go: Go): void => {
    const place = at("gate", g);
    const gate = part<Gate>(state, place);
    const { backend, left } = read(state);
    gate.inbox.forEach((call, i) => {
      const words = `${call.method} for ${call.node} of ${call.issuer} at g${g}`;
      const rest = one({ ...gate, inbox: without(gate.inbox, i) });
      const { issuer } = call;
      const n = numberOf(issuer.split("/")[0] ?? "");
      const task = part<CallTask>(state, at("call", n));
      const waits =
        task.phase === "called" &&
        task.answer === undefined &&
        task.call.order.sequence === call.order.sequence &&
        task.call.via === call.via &&
        issuerOf(n, part<Memory>(state, at("memory", n))) === issuer;
      const { gate: after, reply } = arrive(rest, issuer, call);
      go("arrive", words, {
        [place]: waits ? after : withoutWaiter(after, issuer),
        ...(waits && reply !== undefined ? { [at("call", n)]: answeredTask(task, reply) } : {}),
      });
      go("lose a call", words, { [place]: rest });
    });
    const [orphan] = gate.orphans;
    const { last } = gate;
    const acts = ({ method, node }: PluginCall): Backend =>
      one({
        attached: one(
          method === "ControllerPublishVolume"
            ? [...new Set([...backend.attached, node])].sort()
            : backend.attached.filter((other) => other !== node),
        ),
      });
    if (orphan !== undefined) {
      const rest = one({ ...gate, orphans: without(gate.orphans, 0) });
      const words = `${orphan.method} for ${orphan.node} at g${g}`;
      go("a late call works", words, { [place]: rest, [places.backend]: acts(orphan) });
      go("a late call ends", words, { [place]: rest });
    } else if (last !== undefined && last.answer === undefined)
      for (const { reply, effect, of } of [{ reply: "OK", effect: true, of: undefined } as const, ...failures]) {
        if (of !== undefined && of !== last.method) continue;
        const told: Record<number, object> = {};
        for (const { issuer } of gate.waiting) {
          const n = numberOf(issuer.split("/")[0] ?? "");
          told[at("call", n)] = answeredTask(part<CallTask>(state, at("call", n)), reply);
        }
        go(`answer ${reply}${effect ? "" : " without effect"}`, `${last.method} for ${last.node} at g${g}`, {
          [place]: one({ ...gate, last: one({ ...last, answer: reply }), waiting: one([]) }),
          ...(effect ? { [places.backend]: acts(last) } : {}),
          ...told,
        });
      }
    if (relays && left.gateDeaths > 0)
      go("kill a gate", `g${g}`, {
        [place]: nextLife(gate),
        [places.budget]: one({ ...left, gateDeaths: left.gateDeaths - 1 }),
      });
  };

  const atHost = (state: State, n: Number2, go: Go): void => {
    const place = at("host", n);
    const { late, ...host } = part<Host>(state, place);
    if (late === undefined) return;
    const { backend } = read(state);
    const { host: after, answer } = handled(one(host), late, backend.attached.includes(late.node), "done");
    go("a delayed order arrives", `${late.kind} of ${late.claim} on ${late.node}: ${answer}`, { [place]: after });
    go("lose a delayed order", `${late.kind} of ${late.claim} on ${late.node}`, { [place]: host });
  };

  const client = (state: State, go: Go): void => {
    const { record, left } = read(state);
    if (left.claims > 0)
      for (const node of ["n1", "n2"]) {
        const uid = `k${budget.claims - left.claims + 1}`;
        go("ask for a claim", `${uid} on ${node}`, {
          [places.store]: once(`claim|${idOf(record)}|${uid}|${node}`, () => ({
            record: one(plainRecord(withClaim(wholeRecord(record), firstClaim(uid, node), 0))),
          })),
          [places.budget]: one({ ...left, claims: left.claims - 1 }),
        });
      }
    for (const [uid, { goal }] of Object.entries(record.claims)) {
      if (goal === "released") continue;
      const released = once(`release|${idOf(record)}|${uid}`, () => {
        const { volume } = releaseWanted(wholeRecord(record), uid, undefined, moment);
        return { record: volume === null ? record : one(plainRecord(volume)) };
      });
      go("release a claim", uid, { [places.store]: released });
    }
  };

  const initial = (): State => {
    const state: object[] = [];
    state[places.store] = { record: { claims: {}, attachments: {}, bars: [] } };
    state[places.backend] = { attached: [] };
    state[places.budget] = budget;
    for (const n of numbers) {
      state[at("memory", n)] = { life: 1, up: true };
      state[at("call", n)] = {};
      state[at("agent", n)] = {};
      state[at("gate", n)] = { life: 1, waiting: [], inbox: [], orphans: [] };
      state[at("host", n)] = { mounted: [] };
    }
    return state;
  };

  return {
    initial: initial(),
    symmetries: (relays ? ["c", "g", "n", "cg", "cn", "gn", "cgn"] : ["cg", "n", "cgn"]).map(symmetryOf),
    next(state, go) {
      client(state, go);
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
