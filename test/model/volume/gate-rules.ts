/**
 * What the holder of a plugin's socket does with a call, by the product's own code: its memory is made anew from what the state says of
 * it, and the call is given to it.
 */
import { setImmediate as turn } from "node:timers/promises";
import type { SocketListener } from "@holdfast/csi/call-doubts";
import { failureOf } from "@holdfast/csi/csi-exchange";
import { pathOf } from "@holdfast/csi/methods";
import { createOpenCalls } from "@holdfast/csi/open-calls";
import { codeOf } from "@holdfast/csi/outcome";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { CsiTransport, WireReply } from "@holdfast/csi/transport";
import type { CallOrder } from "@holdfast/model/call-order";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createSilentLogger } from "@holdfast/shared/log/silent-logger";
import { createRelay, type RelayedEnd } from "../../../services/node-agent/src/plugins/relay.ts";
import {
  type Gate,
  type GateWord,
  type ModelOrder,
  type PassedCall,
  type PluginCall,
  type Reply,
  replies,
  type SentCall,
} from "./model-types.ts";
import { codeIn, requestOf, subjectOf } from "./plugin-calls.ts";

/** The call goes to the plugin, waits with the one that is there, or is answered at once. */
export type Passage = "sent" | "joined" | Reply;

const listener: SocketListener = { socketPath: "/p.sock", incarnation: "1", gone: () => false };
const { signal } = new AbortController();
/** Who asks waits for nothing. */
const aborted = AbortSignal.abort();
const wireOf = (reply: Reply): WireReply => {
  if (reply === "OK" || reply === "WRONG") return { bytes: new Uint8Array() };
  return { failure: { message: "", ...replies[reply], code: codeIn(reply) } };
};

/** `known`: what the call was answered before, if it was. */
const replyOf = (wire: WireReply, known: Reply = "OK"): Reply => {
  if ("bytes" in wire) return known;
  const { code, stale, sent } = wire.failure;
  if (stale === true) return "STALE";
  if (!sent) return "BUSY";
  if (code in replies) return code as Reply;
  throw new Error(`the model knows no reply ${code}`);
};

const orderOf = ({ sequence, opId }: ModelOrder): CallOrder => ({ gen: 1, sequence: Number(sequence.slice(1)), opId });

const failureWire = (reply: Extract<RelayedEnd, { failure: unknown }>["failure"]): Reply => {
  if (reply.staleOrder) return "STALE";
  if (reply.notSent) return "BUSY";
  const code = codeOf(reply.code);
  if (code in replies) return code as Reply;
  throw new Error(`the model knows no reply ${code}`);
};

/** The gate in its life, with the calls that passed last, and raised since as was asked of it. */
const createGate = async ({ calls, raised }: Pick<Gate, "calls" | "raised">) => {
  const sent: ((reply: WireReply) => void)[] = [];
  const plugin: CsiTransport = {
    unary() {
      const { promise, resolve } = Promise.withResolvers<WireReply>();
      sent.push(resolve);
      return promise;
    },
    stream: () => {
      throw new Error("the model streams nothing");
    },
  };
  const open = createOpenCalls({ clock: createManualClock() });
  const socket = open.over(plugin, listener);
  const call = (asked: PassedCall): Promise<WireReply> => {
    const options = { signal, deadlineMs: 1_000, metadata: {}, order: orderOf(asked.order) };
    return socket.unary(asked.method, requestOf(asked), options);
  };
  for (const passed of calls) {
    void call(passed);
    if (passed.answer !== undefined) sent.at(-1)?.(wireOf(passed.answer));
    await turn();
  }
  for (const { subject, ...order } of raised) await open.quiesce(subject, orderOf(order), 0, aborted);
  return { open, call, socket, sent };
};

const vetting = { gen: 1, uid: "" };
const log = createSilentLogger();

/** As the agent relays it, which knows its own life; a socket beside a controller has none. */
const relayOf = ({ open, socket }: Awaited<ReturnType<typeof createGate>>, life: string) =>
  createRelay({
    directory: {
      get: () =>
        ({
          role: "controller",
          relay: async (
            method: PluginCall["method"],
            request: Uint8Array,
            { order }: { readonly order?: CallOrder },
          ) => {
            const wire = await socket.unary(method, request, { signal, deadlineMs: 1_000, metadata: {}, order });
            if ("bytes" in wire) return { outcome: "done", value: wire.bytes };
            return { outcome: "unknown", failure: failureOf("model", method, wire.failure, []) };
          },
        }) as unknown as PluginConnection,
      quiesce: (_: string, ...asked) => open.quiesce(...asked),
      openCalls: () => [],
    },
    node: "g",
    life,
    promised: () => vetting,
    log,
  });

export const passGate = async (memory: Gate, asked: SentCall): Promise<Passage> => {
  const gate = await createGate(memory);
  const before = gate.sent.length;
  const known = memory.calls.find((call) => subjectOf(call) === subjectOf(asked))?.answer;
  let answer: Reply | undefined;
  const order = orderOf(asked.order);
  if (asked.gate === undefined)
    void gate.call(asked).then((wire) => {
      answer = replyOf(wire, known);
    });
  else {
    const request = requestOf(asked);
    const { method, gate: meant } = asked;
    const relayed = { plugin: "model", method: pathOf(method), request, deadlineMs: 0, vetting, order, gate: meant };
    void relayOf(gate, `${meant.split("/")[0]}/${memory.life}`)
      .unary(relayed, signal)
      .then((end) => {
        answer = "failure" in end ? failureWire(end.failure) : (known ?? "OK");
      });
  }
  await turn();
  if (gate.sent.length > before) return "sent";
  return answer ?? "joined";
};

export interface GateQuestion {
  readonly via: string;
  readonly gate?: string;
  readonly order: ModelOrder;
  readonly subject: string;
}

/** What the gate says that is asked to let go. */
export const quietGate = async (memory: Gate, { gate: meant, order, subject }: GateQuestion): Promise<GateWord> => {
  const gate = await createGate(memory);
  try {
    const said =
      meant === undefined
        ? await gate.open.quiesce(subject, orderOf(order), 0, aborted)
        : await relayOf(gate, `${meant.split("/")[0]}/${memory.life}`).quiesce(
            { plugin: "model", gate: meant, subject, order: orderOf(order), vetting, waitMs: 0 },
            aborted,
          );
    return said.idle ? "idle" : "open";
  } catch {
    return "away";
  }
};
