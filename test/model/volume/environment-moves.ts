/** What happens around the controllers: ends of processes, messages on their way, plugins at work. */
import type { Go, State } from "../search/search.ts";
import type { GateMoves } from "./gate-moves.ts";
import { openAt } from "./invariants.ts";
import type { OneVolumeOptions } from "./model-options.ts";
import type { AgentTask, Backend, CallTask, Gate, Host, Memory, PassedCall, PluginCall } from "./model-types.ts";
import { externalIdOf, subjectOf, wordsOf } from "./plugin-calls.ts";
import type { ProductRules } from "./product-rules.ts";
import { afterMishap, at, issuerOf, type Number2, numberOf, numbers, part, places, read } from "./state-places.ts";

const done = { reply: "OK", effect: true } as OneVolumeOptions["failures"][number];

const workedOn = (backend: Backend, { method, node, what = "" }: PluginCall): Backend => {
  const { attached, made = [], size = 1 } = backend;
  switch (method) {
    case "ControllerPublishVolume":
      return { ...backend, attached: [...new Set([...attached, node])].sort() };
    case "ControllerUnpublishVolume":
      return { ...backend, attached: attached.filter((other) => other !== node) };
    case "CreateVolume":
      return { ...backend, made: [...new Set([...made, externalIdOf(what)])].sort() };
    case "DeleteVolume":
      return { ...backend, made: made.filter((id) => id !== what) };
    case "ControllerExpandVolume":
      return { ...backend, size: Math.max(size, Number(what)) };
    case "ControllerModifyVolume":
      return { ...backend, speed: what };
  }
};

export const createEnvironmentMoves = (
  { gates, failures }: OneVolumeOptions,
  { one, handled }: ProductRules,
  { arrive, answeredTask, without, withoutWaiter }: GateMoves,
) => {
  const relays = gates === "relays";
  const worked = (backend: Backend, call: PluginCall): Backend => {
    const { attached, made = [], ...after } = workedOn(backend, call);
    return one({ ...after, attached: one(attached), ...(made.length === 0 ? {} : { made: one(made) }) });
  };
  const idle = one<CallTask>({});
  const quiet = one<AgentTask>({});

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
      calls: one([]),
      raised: one([]),
      waiting: one([]),
      inbox: gate.inbox,
      orphans: one(
        openAt(gate).map(({ method, node, what }) => one({ method, node, ...(what === undefined ? {} : { what }) })),
      ),
    });

  const answer = (state: State, g: Number2, open: PassedCall, go: Go): void => {
    const place = at("gate", g);
    const gate = part<Gate>(state, place);
    const { backend, left } = read(state);
    const subject = subjectOf(open);
    for (const { reply, effect, of, here } of [done, ...failures]) {
      const spent = reply === "OK" ? left : afterMishap(left);
      if (here || spent === undefined || (of !== undefined && of !== open.method)) continue;
      const told: Record<number, object> = {};
      for (const { issuer, subject: waitsFor } of gate.waiting) {
        if (waitsFor !== subject) continue;
        const n = numberOf(issuer.split("/")[0] ?? "");
        told[at("call", n)] = answeredTask(part<CallTask>(state, at("call", n)), reply);
      }
      const calls = one(gate.calls.map((call) => (call === open ? one({ ...call, answer: reply }) : call)));
      const waiting = one(gate.waiting.filter((waiter) => waiter.subject !== subject));
      go(`answer ${reply}${effect ? "" : " without effect"}`, `${wordsOf(open)} at g${g}`, {
        [place]: one({ ...gate, calls, waiting }),
        ...(effect ? { [places.backend]: worked(backend, open) } : {}),
        [places.budget]: one(spent),
        ...told,
      });
    }
  };

  const atGate = (state: State, g: Number2, go: Go): void => {
    const place = at("gate", g);
    const gate = part<Gate>(state, place);
    const { backend, left } = read(state);
    gate.inbox.forEach((call, i) => {
      const words = `${wordsOf(call)} of ${call.issuer} at g${g}`;
      const rest = one({ ...gate, inbox: without(gate.inbox, i) });
      const { issuer } = call;
      const n = numberOf(issuer.split("/")[0] ?? "");
      const task = part<CallTask>(state, at("call", n));
      const waits =
        task.phase === "called" &&
        task.answer === undefined &&
        task.call?.order.sequence === call.order.sequence &&
        task.call.via === call.via &&
        issuerOf(n, part<Memory>(state, at("memory", n))) === issuer;
      const { gate: after, reply } = arrive(rest, issuer, call);
      const arrived = waits ? after : withoutWaiter(after, issuer);
      const told = waits && reply !== undefined ? { [at("call", n)]: answeredTask(task, reply) } : {};
      go("arrive", words, { [place]: arrived, ...told });
      if (left.copies > 0)
        go("arrive, with a copy behind", words, {
          [place]: one({ ...arrived, inbox: gate.inbox }),
          ...told,
          [places.budget]: one({ ...left, copies: left.copies - 1 }),
        });
      go("lose a call", words, { [place]: rest });
    });
    const [orphan] = gate.orphans;
    if (orphan !== undefined) {
      const rest = one({ ...gate, orphans: without(gate.orphans, 0) });
      const words = `${wordsOf(orphan)} at g${g}`;
      go("a late call works", words, { [place]: rest, [places.backend]: worked(backend, orphan) });
      go("a late call ends", words, { [place]: rest });
    } else for (const open of gate.calls) if (open.answer === undefined) answer(state, g, open, go);
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

  return { ends, atGate, atHost };
};
