/**
 * What the holder of a plugin's socket does with a call, by the product's own code: its memory is made anew from what the state says of
 * it, and the call is given to it.
 */
import { setImmediate as turn } from "node:timers/promises";
import type { SocketListener } from "@holdfast/csi/call-doubts";
import { codecOf } from "@holdfast/csi/messages";
import { createOpenCalls } from "@holdfast/csi/open-calls";
import type { CsiTransport, WireReply } from "@holdfast/csi/transport";
import type { CallOrder } from "@holdfast/model/call-order";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { type Gate, type ModelOrder, type PluginCall, type Reply, replies } from "./model-types.ts";

/** The call goes to the plugin, waits with the one that is there, or is answered at once. */
export type Passage = "sent" | "joined" | Reply;

const listener: SocketListener = { socketPath: "/p.sock", incarnation: "1", gone: () => false };
const { signal } = new AbortController();

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

export const passGate = async (
  last: Gate["last"] | undefined,
  asked: PluginCall & { readonly order: ModelOrder },
): Promise<Passage> => {
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
  const gate = createOpenCalls({ clock: createManualClock() }).over(plugin, listener);
  const call = ({ method, node, order }: typeof asked): Promise<WireReply> => {
    const codec = codecOf(method);
    const request = codec.encode(codec.complete({ volumeId: "ext-1", nodeId: `id-${node}` }));
    return gate.unary(method, request, { signal, deadlineMs: 1_000, metadata: {}, order: orderOf(order) });
  };
  if (last !== undefined) {
    void call(last);
    if (last.answer !== undefined) sent[0]?.(wireOf(last.answer));
    await turn();
  }
  const before = sent.length;
  let answer: WireReply | undefined;
  void call(asked).then((reply) => {
    answer = reply;
  });
  await turn();
  if (sent.length > before) return "sent";
  return answer === undefined ? "joined" : replyOf(answer);
};
