/**
 * CSI calls to a plugin on another host, as bytes through the agent there. Those of one plugin wait among themselves: a plugin that hangs
 * never stands in the way of permits and releases, nor of another plugin of its host.
 *
 * T1 Nothing is sent where the agent has no stream, and of what was not sent it is known: the plugin got nothing.
 * T2 What the agent itself says is not the plugin's word: a call that it turned away never reached the plugin. A bare status of a proxy or
 * a library is not the agent's word either: of such a call nothing is known.
 * T3 The plugin is told the time of the call; the agent has a little more, so that its own answer can still arrive.
 * T4 A call that changes something carries its order and the life of the agent that it is for, and a stale one is told as such; an agent of
 * an earlier release compares nothing.
 */

import { callPolicy } from "@holdfast/csi/call-policy";
import { type CsiMethod, pathOf } from "@holdfast/csi/methods";
import { type Code, codeOf, codes } from "@holdfast/csi/outcome";
import type { CsiTransport, WireFailure, WireReply } from "@holdfast/csi/transport";
import type { CallOrder, CommitOrder } from "@holdfast/model/call-order";
import type { Vetting } from "@holdfast/model/vetting";
import { wireDuration } from "@holdfast/model/wire-duration";
import type { Clock } from "@holdfast/shared/async/clock";
import { createLimiter, type Limiter } from "@holdfast/shared/async/limiter";
import { linkSignals } from "@holdfast/shared/async/signals";
import { fromClientError, reasonSent, statusOfKind } from "@holdfast/shared/errors/grpc-status";
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AgentServiceDefinition, type RelayResponse } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { createGrpcClient, type GrpcChannel, type GrpcClient } from "@holdfast/shared/grpc/client";
import type { Identity } from "@holdfast/shared/grpc/identity";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Status } from "nice-grpc";
import type { GateAnswer } from "../domain/bar.ts";

interface Asked {
  readonly gate: string;
  readonly subject: string;
  readonly order: CommitOrder;
  readonly waitMs: number;
}

export interface RelayLines {
  /** The way to the plugin of that name on the node. */
  transportTo(node: string, plugin: string): CsiTransport;
  /** Asks the agent there, in the life that is named, to let go of a subject of the plugin. */
  quiesce(node: string, plugin: string, asked: Asked, signal: AbortSignal): Promise<GateAnswer>;
  /** The node has gone, or has no controller plugin any more. */
  forget(node: string): void;
}

/** The streams of agents. */
export interface AgentChannels {
  channelTo(node: string): GrpcChannel;
}

export interface RelayLinesOptions {
  readonly streams: AgentChannels;
  readonly identity: Identity;
  readonly log: Logger;
  readonly clock: Clock;
  /** What the store of this controller was vetted as. */
  readonly vetting: () => Vetting;
}

interface Line {
  readonly client: GrpcClient<typeof AgentServiceDefinition>;
  /** By plugin. */
  readonly limiters: Map<string, Limiter>;
}

/** T3 */
const answerMs = 2_000;
/** Of one plugin at one host, whatever its profile allows. */
const callsInFlight = 64;
const callsWaiting = 4096;

/** A question is asked again when its agent went away; nothing that changes anything is. */
const again: { readonly [method: string]: readonly Status[] | undefined } = Object.fromEntries(
  Object.entries(callPolicy).map(([method, { retryCodes }]) => [
    method,
    retryCodes.map((code) => codes.indexOf(code) as Status),
  ]),
);

/** T1, T2: with one of these the agent says that it has passed nothing on, or the stream that the call never left. */
const ofTheAgent: ReadonlySet<string> = new Set([
  "AGENT_STARTING",
  "CLUSTER_MISMATCH",
  "GENERATION",
  "IDENTITY_MALFORMED",
  "INVALID_ARGUMENT",
  "NODE_MISMATCH",
  "NOT_SENT",
  "OVERLOADED",
  "PERMISSION_DENIED",
  "STREAM_FULL",
]);

const relayOrder = ({ gen, sequence, opId, knownAs = [] }: CallOrder) => ({
  gen: BigInt(gen),
  sequence: BigInt(sequence),
  opId,
  knownAs: [...knownAs],
});

/** A subject that has seen a higher order proves nothing for the one that was asked about. */
export const gateAnswer = ({
  idle,
  words = "",
  superseded = false,
  doubt = false,
}: {
  readonly idle: boolean;
  readonly words?: string;
  readonly superseded?: boolean;
  readonly doubt?: boolean;
}): GateAnswer =>
  idle && !superseded ? { kind: "idle" } : { kind: doubt && !superseded ? "in-doubt" : "open", words };

const unsent = (code: Code, message: string): { readonly failure: WireFailure } => ({
  failure: { code, message, sent: false },
});

export const createRelayLines = (options: RelayLinesOptions): RelayLines => {
  const { streams, identity, log, clock, vetting } = options;
  const lines = new Map<string, Line>();

  const lineTo = (node: string): Line => {
    const known = lines.get(node);
    if (known !== undefined) return known;
    const line = {
      client: createGrpcClient(AgentServiceDefinition, streams.channelTo(node), { log, identity }),
      limiters: new Map<string, Limiter>(),
    };
    lines.set(node, line);
    return line;
  };

  const limiterOf = ({ limiters }: Line, node: string, plugin: string): Limiter => {
    const name = `calls of plugin ${plugin} at node ${node}`;
    const limiter = limiters.get(plugin) ?? createLimiter({ name, limit: callsInFlight, maxQueued: callsWaiting });
    limiters.set(plugin, limiter);
    return limiter;
  };

  const replyOf = ({ response, failure }: Pick<RelayResponse, "response" | "failure">): WireReply => {
    if (failure !== undefined)
      return {
        failure: {
          code: codeOf(failure.code),
          message: failure.message,
          sent: !failure.notSent,
          ...(failure.answered ? { answered: true } : {}),
          ...(failure.staleOrder && failure.notSent ? { stale: true } : {}), // T4
        },
      };
    // An answer with neither is no proof of anything.
    if (response === undefined)
      return { failure: { code: "INTERNAL", message: "the agent passed nothing back", sent: true } };
    return { bytes: response };
  };

  /** Whatever broke on the way. */
  const broken = (node: string, error: unknown): { readonly failure: WireFailure } => {
    const failure: HoldfastError = fromClientError(error);
    const { kind, message } = failure;
    const says = `through the agent of node ${node}: ${message}`;
    if (ofTheAgent.has(reasonSent(failure) ?? "")) return unsent("UNAVAILABLE", says); // T1, T2
    return { failure: { code: codeOf(statusOfKind[kind]), message: says, sent: true } };
  };

  /** Resolves with how to leave when it is the call's turn; otherwise with what became of a call that was not sent. */
  const enter = (
    limiter: Limiter,
    signal: AbortSignal,
  ): Promise<{ readonly leave: () => void } | { readonly failure: WireFailure }> =>
    new Promise((resolve) => {
      const turn = () => new Promise<void>((leave) => resolve({ leave }));
      limiter.run(signal, turn).catch((error: unknown) => {
        if (signal.aborted) resolve(unsent("CANCELLED", "given up before it was sent"));
        else resolve(unsent("UNAVAILABLE", fromClientError(error).message));
      });
    });

  const callOf = (node: string, plugin: string, method: CsiMethod, request: Uint8Array) => ({
    node,
    plugin,
    method: pathOf(method),
    request,
    gen: BigInt(vetting().gen),
    vettingUid: vetting().uid,
  });

  const transportTo = (node: string, plugin: string): CsiTransport => ({
    async unary(method, request, { signal, order, deadlineMs = callPolicy[method].deadlineMs }) {
      const line = lineTo(node);
      const turn = await enter(limiterOf(line, node, plugin), signal);
      if ("failure" in turn) return turn;
      try {
        const wanted = {
          ...callOf(node, plugin, method, request),
          deadline: wireDuration(Math.max(1, deadlineMs)),
          order: order && relayOrder(order), // T4
          gate: order?.gate ?? "", // T4
        };
        const times = { signal, deadlineMs: deadlineMs + answerMs, retryCodes: again[method] ?? [] };
        return replyOf(await line.client.relay(wanted, times));
      } catch (error) {
        if (signal.aborted)
          return {
            failure: { code: "CANCELLED", message: "given up while in flight; the work may go on", sent: true },
          };
        return broken(node, error);
      } finally {
        turn.leave();
      }
    },

    async *stream(method, request, { signal, deadlineMs = callPolicy[method].deadlineMs, totalMs }) {
      const line = lineTo(node);
      const turn = await enter(limiterOf(line, node, plugin), signal);
      if ("failure" in turn) {
        yield turn;
        return;
      }
      const ended = linkSignals(signal);
      let silentFor: number | undefined;
      const startTimer = () =>
        clock.timer(deadlineMs, () => {
          silentFor = deadlineMs;
          ended.abort(new DOMException("deadline", "TimeoutError"));
        });
      let stopTimer = startTimer();
      try {
        const deadline = totalMs === undefined ? {} : { deadline: wireDuration(Math.max(1, totalMs)) };
        const wanted = { ...callOf(node, plugin, method, request), ...deadline };
        const limit = totalMs === undefined ? {} : { deadlineMs: totalMs + answerMs };
        for await (const item of line.client.relayStream(wanted, { signal: ended.signal, ...limit })) {
          stopTimer();
          yield replyOf(item);
          stopTimer = startTimer();
        }
      } catch (error) {
        if (silentFor !== undefined)
          yield { failure: { code: "DEADLINE_EXCEEDED", message: `no answer within ${silentFor} ms`, sent: true } };
        else yield broken(node, error);
      } finally {
        stopTimer();
        ended.dispose();
        turn.leave();
      }
    },
  });

  const quiesce: RelayLines["quiesce"] = async (node, plugin, { order, waitMs, ...asked }, signal) => {
    const wanted = {
      ...asked,
      node,
      plugin,
      gen: BigInt(order.gen),
      vettingUid: vetting().uid,
      sequence: BigInt(order.sequence),
      wait: wireDuration(waitMs),
    };
    try {
      const { client } = lineTo(node);
      const answer = await client.quiesce(wanted, { signal, deadlineMs: waitMs + answerMs, retryCodes: [] });
      return gateAnswer({ ...answer, doubt: answer.inDoubt });
    } catch (error) {
      signal.throwIfAborted();
      return { kind: "away", words: broken(node, error).failure.message };
    }
  };

  return { transportTo, quiesce, forget: (node) => void lines.delete(node) };
};
