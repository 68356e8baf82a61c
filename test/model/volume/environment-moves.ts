/** What happens around the controllers: clients, ends of processes, messages on their way, plugins at work. */
import { withClaim } from "../../../services/controller/src/domain/change.ts";
import { releaseWanted } from "../../../services/controller/src/domain/claim/claim-change.ts";
import type { Moment } from "../../../services/controller/src/domain/moment.ts";
import { defaultRetry } from "../../../services/controller/src/domain/retry.ts";
import type { Go, State } from "../search/search.ts";
import { freshMark } from "./controller-run.ts";
import type { GateMoves } from "./gate-moves.ts";
import { openAt } from "./invariants.ts";
import type { OneVolumeOptions } from "./model-options.ts";
import type { AgentTask, Backend, CallTask, Gate, Host, Memory, PluginCall } from "./model-types.ts";
import { firstClaim, plainRecord, wholeRecord } from "./plain-record.ts";
import type { ProductRules } from "./product-rules.ts";
import { at, issuerOf, type Number2, numberOf, numbers, part, places, read } from "./state-places.ts";

const moment: Moment = { now: 0, issuer: "client", opId: freshMark, random: 0.5, retry: defaultRetry };

export const createEnvironmentMoves = (
  { gates, failures, claims }: OneVolumeOptions,
  { one, idOf, once, handled }: ProductRules,
  { arrive, answeredTask, without, withoutWaiter }: GateMoves,
) => {
  const relays = gates === "relays";
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
        const uid = `k${claims - left.claims + 1}`;
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

  return { ends, atGate, atHost, client };
};
