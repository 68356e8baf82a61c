/**
 * CSI calls to a plugin on another host, as bytes through the agent there. One connection a host, apart from that of permits and
 * inventories: a plugin's calls never stand in the way of those.
 *
 * T1 Nothing is sent before the agent is connected, so that of a host that is away it is known that it got nothing.
 * T2 What the agent itself says is not the plugin's word: a call that it turned away never reached the plugin. A bare status of a proxy or
 * a library is not the agent's word either: of such a call nothing is known.
 * T3 The plugin is told the time of the call; the agent has a little more, so that its own answer can still arrive.
 */

import { callPolicy } from "@holdfast/csi/call-policy";
import { type CsiMethod, pathOf } from "@holdfast/csi/methods";
import { type Code, codeOf, codes } from "@holdfast/csi/outcome";
import type { CsiTransport, WireFailure, WireOptions, WireReply } from "@holdfast/csi/transport";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import { fromClientError, reasonSent, statusOfKind } from "@holdfast/shared/errors/grpc-status";
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AgentServiceDefinition, type RelayResponse } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { createGrpcChannel, createGrpcClient, type GrpcChannel, type GrpcClient } from "@holdfast/shared/grpc/client";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { pluginMaxMessageBytes } from "@holdfast/shared/grpc/message-limits";
import type { Logger } from "@holdfast/shared/log/logger";
import { type Status, waitForChannelReady } from "nice-grpc";
import type { NodeRecord } from "../domain/node.ts";

export interface RelayLines {
  /** The way to the plugin of that name on the node. */
  transportTo(node: Pick<NodeRecord, "name" | "address">, plugin: string): CsiTransport;
  /** The node has gone, or has no controller plugin any more. */
  forget(node: string): void;
  close(): void;
}

export interface RelayLinesOptions {
  readonly identity: Identity;
  readonly log: Logger;
  readonly clock: Clock;
  /** The store generation that this controller acts under. */
  readonly gen: () => number;
  readonly connectMs?: number;
}

interface Line {
  readonly address: string;
  readonly channel: GrpcChannel;
  readonly client: GrpcClient<typeof AgentServiceDefinition>;
}

/** gRPC's connectivity state, by the number of its specification. */
const READY = 2;
/** T3 */
const answerMs = 2_000;
/** A host that vanished without a word is noticed within ten seconds. Sent only during calls. */
const keepalive = { timeMs: 5_000, timeoutMs: 5_000 };

/** A question is asked again when its agent went away; nothing that changes anything is. */
const again: { readonly [method: string]: readonly Status[] | undefined } = Object.fromEntries(
  Object.entries(callPolicy).map(([method, { retryCodes }]) => [
    method,
    retryCodes.map((code) => codes.indexOf(code) as Status),
  ]),
);

/** T2: with one of these the agent says that it has passed nothing on. */
const ofTheAgent: ReadonlySet<string> = new Set([
  "AGENT_STARTING",
  "CLUSTER_MISMATCH",
  "GENERATION",
  "IDENTITY_MALFORMED",
  "INVALID_ARGUMENT",
  "NODE_MISMATCH",
  "OVERLOADED",
  "PERMISSION_DENIED",
]);

const unsent = (code: Code, message: string): { readonly failure: WireFailure } => ({
  failure: { code, message, sent: false },
});

export const createRelayLines = (options: RelayLinesOptions): RelayLines => {
  const { identity, log, clock, gen, connectMs = 5_000 } = options;
  const lines = new Map<string, Line>();

  const lineTo = ({ name, address }: Pick<NodeRecord, "name" | "address">): Line => {
    const known = lines.get(name);
    if (known?.address === address) return known;
    known?.channel.close();
    const channel = createGrpcChannel(address, {
      ownConnection: true,
      maxMessageBytes: pluginMaxMessageBytes,
      ...(address.startsWith("unix:") ? {} : { keepalive }),
    });
    const line = { address, channel, client: createGrpcClient(AgentServiceDefinition, channel, { log, identity }) };
    lines.set(name, line);
    return line;
  };

  const replyOf = ({ response, failure }: Pick<RelayResponse, "response" | "failure">): WireReply => {
    if (failure !== undefined)
      return {
        failure: {
          code: codeOf(failure.code),
          message: failure.message,
          sent: !failure.notSent,
          ...(failure.answered ? { answered: true } : {}),
        },
      };
    // An answer with neither is no proof of anything.
    if (response === undefined)
      return { failure: { code: "INTERNAL", message: "the agent passed nothing back", sent: true } };
    return { bytes: response };
  };

  /** Whatever broke on the way. */
  const broken = (node: string, address: string, error: unknown): { readonly failure: WireFailure } => {
    const failure: HoldfastError = fromClientError(error);
    const { kind, message } = failure;
    const says = `through the agent of node ${node} at ${address}: ${message}`;
    if (ofTheAgent.has(reasonSent(failure) ?? "")) return unsent("UNAVAILABLE", says); // T2
    return { failure: { code: codeOf(statusOfKind[kind]), message: says, sent: true } };
  };

  /** T1: the failure, if it is not. */
  const connected = async (
    line: Line,
    node: string,
    { signal, deadlineMs = connectMs }: WireOptions,
  ): Promise<{ readonly failure: WireFailure } | undefined> => {
    const givenUp = unsent("CANCELLED", "given up before it was sent");
    if (signal.aborted) return givenUp;
    if (line.channel.getConnectivityState(true) === READY) return undefined;
    const given = Promise.withResolvers<"given up">();
    const giveUp = (): void => given.resolve("given up");
    signal.addEventListener("abort", giveUp, { once: true });
    const until = new Date(clock.now() + Math.min(connectMs, deadlineMs));
    const ready = waitForChannelReady(line.channel, until).then(
      () => "ready" as const,
      () => "away" as const,
    );
    const state = await Promise.race([ready, given.promise]);
    signal.removeEventListener("abort", giveUp);
    if (state === "ready") return undefined;
    if (state === "given up") return givenUp;
    return unsent("UNAVAILABLE", `the agent of node ${node} at ${line.address} cannot be reached`);
  };

  const orderOf = (node: string, plugin: string, method: CsiMethod, request: Uint8Array) => ({
    node,
    plugin,
    method: pathOf(method),
    request,
    gen: BigInt(gen()),
  });

  const transportTo = (node: Pick<NodeRecord, "name" | "address">, plugin: string): CsiTransport => ({
    async unary(method, request, wire) {
      const { signal, deadlineMs = callPolicy[method].deadlineMs } = wire;
      const line = lineTo(node);
      const away = await connected(line, node.name, wire);
      if (away !== undefined) return away;
      try {
        const order = { ...orderOf(node.name, plugin, method, request), deadline: durationOf(deadlineMs) };
        return replyOf(
          await line.client.relay(order, {
            signal,
            deadlineMs: deadlineMs + answerMs,
            retryCodes: again[method] ?? [],
          }),
        );
      } catch (error) {
        if (signal.aborted)
          return {
            failure: { code: "CANCELLED", message: "given up while in flight; the work may go on", sent: true },
          };
        return broken(node.name, line.address, error);
      }
    },

    async *stream(method, request, wire) {
      const { signal, deadlineMs = callPolicy[method].deadlineMs, totalMs } = wire;
      const line = lineTo(node);
      const away = await connected(line, node.name, wire);
      if (away !== undefined) {
        yield away;
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
        const deadline = totalMs === undefined ? {} : { deadline: durationOf(totalMs) };
        const order = { ...orderOf(node.name, plugin, method, request), ...deadline };
        const limit = totalMs === undefined ? {} : { deadlineMs: totalMs + answerMs };
        for await (const item of line.client.relayStream(order, { signal: ended.signal, ...limit })) {
          stopTimer();
          yield replyOf(item);
          stopTimer = startTimer();
        }
      } catch (error) {
        if (silentFor !== undefined)
          yield { failure: { code: "DEADLINE_EXCEEDED", message: `no answer within ${silentFor} ms`, sent: true } };
        else yield broken(node.name, line.address, error);
      } finally {
        stopTimer();
        ended.dispose();
      }
    },
  });

  return {
    transportTo,
    forget(node) {
      lines.get(node)?.channel.close();
      lines.delete(node);
    },
    close() {
      for (const { channel } of lines.values()) channel.close();
      lines.clear();
    },
  };
};

const durationOf = (ms: number): { readonly seconds: bigint; readonly nanos: number } => {
  const whole = Math.max(1, Math.ceil(ms));
  return { seconds: BigInt(Math.floor(whole / 1_000)), nanos: (whole % 1_000) * 1_000_000 };
};
