import { systemClock } from "@holdfast/shared/async/clock";
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  type AcknowledgeRequest,
  AgentLinkServiceDefinition,
  Hello,
  Reconnect,
  type RegisterHeader,
  type ReportRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import type { PluginFingerprint } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { createGrpcClient, type GrpcClient } from "@holdfast/shared/grpc/client";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createAbsentChannel } from "@holdfast/shared/grpc/stream/absent-channel";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createStreamCalls, type StreamCalls } from "@holdfast/shared/grpc/stream/stream-calls";
import { createTransferMeeting } from "@holdfast/shared/grpc/stream/transfer-meeting";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { unpaced } from "@holdfast/shared/testing/unpaced";
import { onTestFinished } from "vitest";

/** The controller's half of the link, with the memory that matters: node epoch by journal uid. */
export interface FakeController {
  readonly address: string;
  readonly headers: RegisterHeader[];
  readonly reports: ReportRequest[];
  readonly acknowledged: AcknowledgeRequest[];
  /** Of all streams that ever were. */
  readonly hellos: Hello[];
  /** What happened to streams, which are numbered as they come: "0 open", "0 registered", "0 ended". */
  readonly course: string[];
  /** Of the instance that registered last. */
  fingerprints(): readonly PluginFingerprint[];
  nodeEpoch(): number;
  /** What registrations are answered from now on; undefined: the true one. */
  answerNodeEpoch(posed: bigint | undefined): void;
  setState(state: NodeState): void;
  /** Registrations are refused until it is undefined. */
  refuse(error: HoldfastError | undefined): void;
  /** Answers reports with known: false until the next registration. */
  forget(): void;
  setForgetting(forgetting: boolean): void;
  /** Orders over the stream that registered last. */
  orders(identity?: Identity): GrpcClient<typeof AgentServiceDefinition>;
  /** Asks for another stream in place of the one that registered last. */
  reconnect(jitterMs: number): void;
  /** The next stream is cut at its n-th frame, counted from 1: one that came is not taken, one that goes is not sent. */
  cutAt(way: "up" | "down", frame: number): void;
  stop(): Promise<void>;
}

interface OpenStream {
  readonly number: number;
  readonly calls: StreamCalls;
}

/** Of one test. */
export async function startFakeController(options: { readonly listen?: string } = {}): Promise<FakeController> {
  const controller = await serveFakeController(options);
  onTestFinished(controller.stop);
  return controller;
}

export async function serveFakeController(options: { readonly listen?: string } = {}): Promise<FakeController> {
  const headers: RegisterHeader[] = [];
  const reports: ReportRequest[] = [];
  const acknowledged: AcknowledgeRequest[] = [];
  const hellos: Hello[] = [];
  const course: string[] = [];
  const meetings = new Map<string, ReturnType<typeof createTransferMeeting>>();
  let fingerprints = new Map<string, PluginFingerprint>();
  let journalUid = "";
  let nodeEpoch = 0;
  let posed: bigint | undefined;
  let known = "";
  let state: NodeState = NodeState.NODE_STATE_READY;
  let forgetting = true;
  let refusal: HoldfastError | undefined;
  let registered: OpenStream | undefined;
  let opened = 0;
  let cut: { way: "up" | "down"; frame: number } | undefined;
  const keyOf = (plugin: string, instance: string) => `${plugin} ${instance}`;
  const log = createMemoryLogger();
  const surround = createCallSurround({ log, address: () => "fake" });

  const servedOn = (stream: () => OpenStream) =>
    createServedMethods({
      definition: AgentLinkServiceDefinition,
      surround,
      implementation: {
        async register({ header, plugins }) {
          if (refusal !== undefined) throw refusal;
          if (header === undefined) throw new Error("a registration without a header");
          headers.push(header);
          fingerprints = new Map(plugins.map((one) => [keyOf(one.plugin, one.instanceId), one]));
          if (header.journalUid !== journalUid) nodeEpoch = Math.max(nodeEpoch, Number(header.nodeEpoch)) + 1;
          journalUid = header.journalUid;
          known = header.instance;
          registered = stream();
          course.push(`${registered.number} registered`);
          // Of the installation that the agent belongs to, whichever that is.
          const clusterUid = header.clusterUid === "" ? "cluster-1" : header.clusterUid;
          return { nodeEpoch: posed ?? BigInt(nodeEpoch), controllerId: "fake", clusterUid, state };
        },
        async report(request) {
          reports.push(request);
          for (const one of request.changed) fingerprints.set(keyOf(one.plugin, one.instanceId), one);
          for (const one of request.removed) fingerprints.delete(keyOf(one.plugin, one.instanceId));
          return { known: request.instance === known, nodeEpoch: BigInt(nodeEpoch), state };
        },
        async acknowledge(request) {
          acknowledged.push(request);
          return { forgottenClaimUids: forgetting ? request.released.map(({ claimUid }) => claimUid) : [] };
        },
        requestClaims: () => Promise.reject(new Error("it has no claims")),
        releaseClaims: () => Promise.reject(new Error("it has no claims")),
        issueTokens: () => Promise.reject(new Error("it has no tokens")),
        getHealthSecrets: async () => ({ secrets: {} }),
        makeVolume: () => Promise.reject(new Error("it has no volumes")),
        removeVolume: () => Promise.reject(new Error("it has no volumes")),
        findVolumes: () => Promise.reject(new Error("it has no volumes")),
        greet: async () => ({ controllerId: "fake", now: new Date(), known: known !== "" }),
      },
    });

  const server = createGrpcServer({ log, reflection: false });
  server.add(ServeWireDefinition, {
    async *serve(frames, { signal }) {
      const meeting = createTransferMeeting({ clock: systemClock, patienceMs: 5_000, pace: unpaced });
      const number = opened;
      opened += 1;
      const calls: StreamCalls = createStreamCalls({
        side: "controller",
        peer: "the agent",
        served: servedOn(() => stream),
        transfers: meeting.bodies,
        onNotice(bytes) {
          const hello = Hello.decode(bytes);
          hellos.push(hello);
          meetings.set(hello.stream, meeting);
          course.push(`${number} open`);
        },
      });
      const stream: OpenStream = { number, calls };
      const cutting = cut;
      cut = undefined;
      let isCut = false;
      const reader = async (): Promise<void> => {
        let count = 0;
        for await (const frame of frames) {
          count += 1;
          isCut = cutting?.way === "up" && cutting.frame === count;
          if (isCut) return;
          calls.take(frame);
        }
      };
      const end = () => calls.end("the stream is over");
      signal.addEventListener("abort", end, { once: true });
      void reader()
        .catch(() => undefined)
        .finally(end);
      try {
        let count = 0;
        for await (const frame of calls.frames) {
          count += 1;
          if (cutting?.way === "down" && cutting.frame === count) throw new Error("cut");
          yield frame;
        }
        if (isCut) throw new Error("cut");
      } finally {
        end();
        meeting.end();
        course.push(`${number} ended`);
        if (registered === stream) registered = undefined;
      }
    },
    async *transfer(chunks, { signal }) {
      const iterator = chunks[Symbol.asyncIterator]();
      const first = await iterator.next();
      const open = first.done === true ? undefined : first.value.open;
      const meeting = meetings.get(open?.stream ?? "");
      if (open === undefined || meeting === undefined) throw new Error("a transfer of no stream");
      const rest = async function* () {
        if (first.done !== true) yield first.value;
        yield* { [Symbol.asyncIterator]: () => iterator };
      };
      yield* meeting.arrived(open, rest(), signal);
    },
  });
  const address = await server.listen(options.listen ?? "127.0.0.1:0");
  const stop = () => server.stop({ graceMs: 0 });
  return {
    address,
    headers,
    reports,
    acknowledged,
    hellos,
    course,
    fingerprints: () => [...fingerprints.values()],
    nodeEpoch: () => nodeEpoch,
    answerNodeEpoch(wanted) {
      posed = wanted;
    },
    setState(next) {
      state = next;
    },
    refuse(error) {
      refusal = error;
    },
    forget() {
      known = "";
    },
    setForgetting(next) {
      forgetting = next;
    },
    orders(identity = { role: "controller", name: "test" }) {
      const channel = registered?.calls.channel ?? createAbsentChannel("no agent is registered");
      return createGrpcClient(AgentServiceDefinition, channel, { log, identity });
    },
    reconnect(jitterMs) {
      registered?.calls.notify(Reconnect.encode({ jitterMs, reason: "the test wants another stream" }).finish());
    },
    cutAt(way, frame) {
      cut = { way, frame };
    },
    stop,
  };
}
