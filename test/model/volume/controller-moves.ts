/** What a controller does next: a step of its plan, a call that leaves or is answered, an answer of an agent. */
import type { Seat } from "../../../services/controller/src/domain/open-call.ts";
import { nameOnNode } from "../../../services/controller/src/domain/plugin/instance-name.ts";
import type { Step } from "../../../services/controller/src/domain/steps.ts";
import type { Go, State } from "../search/search.ts";
import { stageFates } from "./agent-rules.ts";
import type { RunOutput } from "./controller-run.ts";
import type { GateMoves } from "./gate-moves.ts";
import type { OneVolumeOptions } from "./model-options.ts";
import {
  type AgentOrder,
  type AgentReply,
  type AgentTask,
  type CallTask,
  type Gate,
  type GateWord,
  type Host,
  type Memory,
  type Reply,
  replies,
} from "./model-types.ts";
import type { PlainRecord } from "./plain-record.ts";
import { wordsOf } from "./plugin-calls.ts";
import type { ProductRules } from "./product-rules.ts";
import { afterMishap, at, issuerOf, type Number2, numberOf, numbers, part, places, read } from "./state-places.ts";

const reading = "ValidateVolumeCapabilities";
const nobody: ReadonlyMap<string, Seat> = new Map();

export const createControllerMoves = (
  { gates, onTheWay, silence, failures, shares }: OneVolumeOptions,
  { one, handled, forStep, planOf, run, quieted }: ProductRules,
  { arrive, answeredTask, raisedTo, sorted, withoutWaiter }: GateMoves,
) => {
  const waits = silence ? [false, true] : [false];
  const sides = shares ? [true, false] : [true];
  const relays = gates === "relays";
  const viaOf = (g: Number2): string => (relays ? nameOnNode("model", `g${g}`) : `/g${g}.sock`);
  const idle = one<CallTask>({});
  const quiet = one<AgentTask>({});

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
  /** The gates that a controller can reach, each in its life. */
  const reachable = (state: State, n: Number2): readonly Seat[] =>
    relays
      ? numbers.map((g) => one({ via: viaOf(g), gate: `g${g}/${part<Gate>(state, at("gate", g)).life}` }))
      : [one({ via: viaOf(n) })];
  /** As the step that waits has found them. */
  const livesOf = ({ record, found }: { readonly record: PlainRecord; readonly found?: string }, step: Step) => {
    const bar = "bar" in step ? record.bars.find(({ opId }) => opId === step.bar) : undefined;
    const { via, gate } = bar === undefined ? (record.intent ?? {}) : { via: bar.via, gate: found };
    return new Map(via === undefined ? [] : [[via, { via, ...(gate === undefined ? {} : { gate }) }]]);
  };

  const plan = (state: State, n: Number2, go: Go): void => {
    const { record } = read(state);
    const memory = part<Memory>(state, at("memory", n));
    const { order, unstored } = memory;
    const issuer = issuerOf(n, memory);
    const busy = part<CallTask>(state, at("call", n)).phase !== undefined;
    const asking = part<AgentTask>(state, at("agent", n)).phase !== undefined;
    const there = reachable(state, n);
    const lives = new Map(there.map((seat) => [seat.via, seat]));
    for (const step of planOf(record)) {
      const onAgent = step.lane.startsWith("node ");
      if (onAgent ? asking : step.lane !== "grant" && busy) continue;
      const told = new Set<object>();
      for (const drives of sides) {
        let shared = false;
        for (const reach of [true, false]) {
          let reached = false;
          for (const patient of waits)
            for (const seat of [...there, null]) {
              const input = { issuer, step, planned: record, stored: record, order, unstored, seat, patient } as const;
              const output = run({ ...input, drives, lives: reach ? lives : nobody, until: "call" });
              reached ||= output.reached === true;
              shared ||= output.shared === true;
              if (!told.has(output)) begin(state, n, step, output, go);
              told.add(output);
              if (output.seated === undefined) break;
            }
          if (!reached) break;
        }
        if (!shared) break;
      }
    }
  };

  /** LR2: the release that a client asks for leaves, whatever becomes of the commit beside it. */
  const releasesAhead = (state: State, go: Go): void => {
    const { record } = read(state);
    for (const [uid, { state: now, goal, node = "", epoch }] of Object.entries(record.claims))
      if (now === "ACTIVE" && goal === undefined && epoch !== undefined)
        ask(state, 1, undefined, record, { kind: "release", node, claim: uid, epoch, oldest: epoch }, {}, go);
  };

  /** What a step comes to before anybody has answered it. */
  const begin = (state: State, n: Number2, step: Step, output: RunOutput, go: Go): void => {
    const { record, left } = read(state);
    const memory = part<Memory>(state, at("memory", n));
    const overtakes = (output.stored?.bars.length ?? 0) > record.bars.length;
    if (overtakes && left.overtakings === 0) return;
    const spent = overtakes ? { [places.budget]: one({ ...left, overtakings: left.overtakings - 1 }) } : {};
    const stored =
      output.stored === undefined
        ? {}
        : {
            ...spent,
            [places.store]: one({ record: output.stored }),
            [at("memory", n)]: remembering(memory, output.stored, output),
          };
    if (step.do === "lift" && (output.quiets !== undefined || (output.past !== undefined && output.waits))) {
      const bar = record.bars.find(({ opId }) => opId === step.bar);
      const life = part<Gate>(state, at("gate", numberOf(bar?.via ?? ""))).life;
      const found = bar?.gate === undefined ? {} : { found: `g${numberOf(bar.via)}/${life}` };
      const task: CallTask = {
        phase: "leaving",
        step,
        record: forStep(record, step),
        ...(output.past === undefined ? {} : { past: output.past }),
        ...found,
      };
      go(`plan lift`, `c${n}`, { ...stored, [at("call", n)]: one(task) });
      return;
    }
    const given = output.stored?.intent?.via === undefined ? "hand on" : "overtake";
    if (output.stored !== undefined) go(`${overtakes ? given : "store"} ${step.do}`, `c${n}`, stored);
    else if (output.waits)
      go(`plan ${step.do}`, `c${n}`, {
        [at("call", n)]: one({ phase: "leaving", step, record: forStep(record, step) }),
      });
    if (output.asked !== undefined) ask(state, n, step, record, output.asked, {}, go);
  };

  /** An order that leaves, and what comes of it. `changed`: what else becomes of the state; the answer is for `step`, or for nobody. */
  const ask = (
    state: State,
    n: Number2,
    step: Step | undefined,
    record: PlainRecord,
    order: AgentOrder,
    changed: Readonly<Record<number, object>>,
    go: Go,
  ): void => {
    const { left, backend } = read(state);
    const place = places.host + numberOf(order.node) - 1;
    const host = part<Host>(state, place);
    const attached = backend.attached.includes(order.node);
    const words = `${order.claim} on ${order.node}, asked by c${n}`;
    const heard = (answer: AgentReply): Readonly<Record<number, object>> =>
      step === undefined
        ? {}
        : { [at("agent", n)]: one<AgentTask>({ phase: "asked", step, record: forStep(record, step), answer }) };
    for (const fate of order.kind === "permit" && attached ? stageFates : (["done"] as const)) {
      const { host: after, answer } = handled(host, order, attached, fate);
      go(`${order.kind} ${answer}`, words, { ...changed, [place]: after, ...heard(answer) });
    }
    if (left.unheard !== undefined && left.unheard > 0)
      go(`${order.kind} unheard`, words, {
        ...changed,
        ...heard(order.kind === "permit" ? "uncertain" : "pending"),
        [places.budget]: one({ ...left, unheard: left.unheard - 1 }),
      });
    if (host.late === undefined && left.lateOrders > 0)
      go(`${order.kind} delayed`, words, {
        ...changed,
        [place]: one({ ...host, late: order }),
        [places.budget]: one({ ...left, lateOrders: left.lateOrders - 1 }),
      });
  };

  const callTask = (state: State, n: Number2, go: Go): void => {
    const { record, left: budget } = read(state);
    const memory = part<Memory>(state, at("memory", n));
    const task = part<CallTask>(state, at("call", n));
    const issuer = issuerOf(n, memory);
    const { order, unstored } = memory;
    if (task.phase === "leaving") {
      const { step, past, found } = task;
      const kept = { ...(past === undefined ? {} : { past }), ...(found === undefined ? {} : { found }) };
      const lives = livesOf(task, step);
      const input = {
        issuer,
        step,
        planned: task.record,
        past,
        stored: record,
        order,
        unstored,
        patient: false,
        lives,
      };
      const sends = run({ ...input, seat: null, until: "gone" });
      const { left } = sends;
      /** What is answered without a gate. */
      const told = (answers: readonly Reply[]): void => {
        for (const reply of answers) {
          const spent = reply === "OK" ? budget : afterMishap(budget);
          if (spent === undefined) continue;
          const output = run({ ...input, seat: null, until: reply });
          go(`answer ${reply} at once`, `c${n}`, {
            [places.budget]: one(spent),
            ...(output.stored === undefined ? {} : { [places.store]: one({ record: output.stored }) }),
            [at("call", n)]: idle,
            [at("memory", n)]: remembering(memory, output.stored ?? record, output),
          });
        }
      };
      if (sends.quiets !== undefined) {
        const place = at("gate", numberOf(sends.quiets.via));
        const gate = part<Gate>(state, place);
        const word = quieted(gate, sends.quiets);
        const called = {
          phase: "called",
          step,
          record: task.record,
          before: false,
          ...kept,
        } as const;
        go(`gate is ${word}`, `g${numberOf(sends.quiets.via)} asked by c${n}`, {
          [place]: word === "away" ? gate : raisedTo(gate, sends.quiets),
          [at("call", n)]: one<CallTask>({ ...called, answer: word }),
        });
        go("gate is not reached", `c${n}`, { [at("call", n)]: idle });
        return;
      }
      const place = left === undefined ? undefined : at("gate", numberOf(left.via));
      if (sends.reads) told(["OK", ...failures.flatMap(({ reply, of }) => (of === reading ? [reply] : []))]);
      else if (left === undefined || place === undefined)
        go("give up a call", `c${n}`, { [at("call", n)]: idle, [at("memory", n)]: remembering(memory, record, sends) });
      else {
        const gate = part<Gate>(state, place);
        told(failures.flatMap(({ reply, of, here }) => (here && (of ?? left.method) === left.method ? [reply] : [])));
        const words = `${wordsOf(left)} through ${left.via} by c${n}`;
        const called: CallTask = {
          phase: "called",
          step: task.step,
          record: forStep(record, task.step),
          before: unstored === left.order.opId,
          ...kept,
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
    const { step, call, before, answer, past } = task;
    const said = call === undefined ? "the question to a gate" : wordsOf(call);
    const settle = (reply: Reply | GateWord, action: string, known = task.record): void => {
      const output = run({
        issuer,
        step,
        planned: task.record,
        seen: task.record,
        known,
        past,
        lives: livesOf(task, step),
        stored: record,
        order: past === undefined ? call?.order : order,
        unstored: past === undefined ? (before ? call?.order.opId : undefined) : unstored,
        seat: null,
        patient: false,
        until: reply,
      });
      const after = output.stored ?? record;
      // An order that was forgotten as stale stays forgotten; any other memory is the memory of now.
      const kept = output.stored === undefined && output.order !== undefined ? { ...output, order } : output;
      const place = call === undefined ? undefined : at("gate", numberOf(call.via));
      const over = {
        [at("call", n)]: idle,
        ...(place === undefined ? {} : { [place]: withoutWaiter(part<Gate>(state, place), issuer) }),
      };
      const next = {
        ...over,
        ...(output.stored === undefined ? {} : { [places.store]: one({ record: output.stored }) }),
        [at("memory", n)]: remembering(memory, after, kept as RunOutput),
      };
      const { asked: permit } = output;
      if (permit === undefined) go(action, `c${n}: ${reply} for ${said}`, next);
      else {
        const offer = planOf(after).find((one) => one.do === "offer" && one.uid === permit.claim);
        const free = part<AgentTask>(state, at("agent", n)).phase === undefined;
        ask(state, n, free ? offer : undefined, after, permit, next, go);
        ask(state, n, undefined, record, permit, over, go);
      }
      // What this controller knows of the record by now lets a permit leave, or not.
      if (known === task.record && step.do === "attach") settle(reply, action, record);
    };
    if (answer !== undefined) settle(answer, "take an answer");
    if (call === undefined) go("lose an answer", `c${n}`, { [at("call", n)]: idle });
    else if (answer === undefined || (answer in replies && replies[answer as Reply].sent))
      settle("DEADLINE_EXCEEDED", "wait no longer");
  };

  const agentTask = (state: State, n: Number2, go: Go): void => {
    const { record } = read(state);
    const memory = part<Memory>(state, at("memory", n));
    const { order, unstored } = memory;
    const task = part<AgentTask>(state, at("agent", n));
    if (task.phase === undefined) return;
    const { step, answer } = task;
    for (const seat of [...reachable(state, n), null]) {
      const output = run({
        issuer: issuerOf(n, memory),
        step,
        planned: task.record,
        stored: record,
        order,
        unstored,
        seat,
        lives: nobody,
        patient: false,
        until: answer,
      });
      go("store an agent's answer", `c${n}: ${answer}`, {
        ...(output.stored === undefined ? {} : { [places.store]: one({ record: output.stored }) }),
        [at("agent", n)]: quiet,
        [at("memory", n)]: remembering(memory, output.stored ?? record, output),
      });
      if (output.seated === undefined) break;
    }
    go("lose an agent's answer", `c${n}: ${answer}`, { [at("agent", n)]: quiet });
  };

  return { plan, callTask, agentTask, releasesAhead };
};
