/**
 * What the holder of a plugin's socket does with a call, by the product's own code: its memory is made anew from what the state says of
 * it, and the call is given to it.
 */
import { setImmediate as turn } from "node:timers/promises";
import type { SocketListener } from "@holdfast/csi/call-doubts";
import { failureOf } from "@holdfast/csi/csi-exchange";
import { gateSubject } from "@holdfast/csi/gate-subject";
import { codecOf } from "@holdfast/csi/messages";
import { pathOf } from "@holdfast/csi/methods";
import { createOpenCalls } from "@holdfast/csi/open-calls";
import { codeOf } from "@holdfast/csi/outcome";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { CsiTransport, WireReply } from "@holdfast/csi/transport";
import type { CallOrder } from "@holdfast/model/call-order";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createLogger } from "@holdfast/shared/log/logger";
import { createRelay, type RelayedEnd } from "../../../services/node-agent/src/plugins/relay.ts";
import {
  type Gate,
  type GateWord,
  type ModelOrder,
  type PluginCall,
  type Reply,
  replies,
  type SentCall,
} from "./model-types.ts";

/** The call goes to the plugin, waits with the one that is there, or is answered at once. */
export type Passage = "sent" | "joined" | Reply;

const listener: SocketListener = { socketPath: "/p.sock", incarnation: "1", gone: () => false };
const { signal } = new AbortController();
/** Who asks waits for nothing. */
const aborted = AbortSignal.abort();
const requestOf = (method: PluginCall["method"], node: string): Uint8Array => {
  const codec = codecOf(method);
  return codec.encode(codec.complete({ volumeId: "ext-1", nodeId: `id-${node}` }));
};

const wireOf = (reply: Reply): WireReply => {
  if (reply === "OK") return { bytes: new Uint8Array() };
  const code = reply === "BUSY" || reply === "STALE" ? "ABORTED" : reply;
  return { failure: { code, message: "", ...replies[reply] } };
};

const replyOf = (wire: WireReply): Reply => {
  if ("bytes" in wire) return "OK";
  const { code, stale, sent } = wire.failure;
  if (stale === true) return "STALE";
  if (!sent) return "BUSY";
  if (code in replies) return code as Reply;
  throw new Error(`the model knows no reply ${code}`);
};

const orderOf = ({ sequence, opId }: ModelOrder): CallOrder => ({ gen: 1, sequence: Number(sequence.slice(1)), opId });

const subject = gateSubject("volume", { id: "ext-1" });
const failureWire = (reply: Extract<RelayedEnd, { failure: unknown }>["failure"]): Reply => {
  if (reply.staleOrder) return "STALE";
  if (reply.notSent) return "BUSY";
  const code = codeOf(reply.code);
  if (code in replies) return code as Reply;
  throw new Error(`the model knows no reply ${code}`);
};

/** The gate in its life, with the call that passed last, and raised since if that was asked of it. */
const createGate = async ({ last, raised }: Pick<Gate, "last" | "raised">) => {
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
  const call = ({ method, node, order }: PluginCall & { readonly order: ModelOrder }): Promise<WireReply> =>
    socket.unary(method, requestOf(method, node), { signal, deadlineMs: 1_000, metadata: {}, order: orderOf(order) });
  if (last !== undefined) {
    void call(last);
    if (last.answer !== undefined) sent[0]?.(wireOf(last.answer));
    await turn();
  }
  if (raised !== undefined) await open.quiesce(subject, orderOf(raised), 0, aborted);
  return { open, call, socket, sent };
};

const log = createLogger({ level: "error", destination: { write: () => true } });

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
    },
    node: "g",
    life,
    promisedGen: () => 1,
    log,
  });

export const passGate = async (memory: Gate, asked: SentCall): Promise<Passage> => {
  const gate = await createGate(memory);
  const before = gate.sent.length;
  let answer: Reply | undefined;
  const order = orderOf(asked.order);
  if (asked.gate === undefined)
    void gate.call(asked).then((wire) => {
      answer = replyOf(wire);
    });
  else {
    const request = requestOf(asked.method, asked.node);
    const { method, gate: meant } = asked;
    const relayed = { plugin: "model", method: pathOf(method), request, deadlineMs: 0, gen: 1, order, gate: meant };
    void relayOf(gate, `${meant.split("/")[0]}/${memory.life}`)
      .unary(relayed, signal)
      .then((end) => {
        answer = "failure" in end ? failureWire(end.failure) : "OK";
      });
  }
  await turn();
  if (gate.sent.length > before) return "sent";
  return answer ?? "joined";
};

/** What the gate says that is asked to let go. */
export const quietGate = async (
  memory: Gate,
  { via: _v, gate: meant, order }: { readonly via: string; readonly gate?: string; readonly order: ModelOrder },
): Promise<GateWord> => {
  const gate = await createGate(memory);
  try {
    const said =
      meant === undefined
        ? await gate.open.quiesce(subject, orderOf(order), 0, aborted)
        : await relayOf(gate, `${meant.split("/")[0]}/${memory.life}`).quiesce(
            { plugin: "model", gate: meant, subject, order: orderOf(order), waitMs: 0 },
            aborted,
          );
    return said.idle ? "idle" : "open";
  } catch {
    return "away";
  }
};
