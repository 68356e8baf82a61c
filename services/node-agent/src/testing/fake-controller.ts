import {
  type AcknowledgeRequest,
  ControllerLinkServiceDefinition,
  type HeartbeatRequest,
  type RegisterHeader,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import type { PluginFingerprint } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { onTestFinished } from "vitest";

/** The controller's half of the link, with the memory that matters: node epoch by journal uid. */
export interface FakeController {
  readonly address: string;
  readonly headers: RegisterHeader[];
  readonly heartbeats: HeartbeatRequest[];
  readonly acknowledged: AcknowledgeRequest[];
  /** Of the instance that registered last. */
  fingerprints(): readonly PluginFingerprint[];
  nodeEpoch(): number;
  /** What registrations are answered from now on; undefined: the true one. */
  answerNodeEpoch(posed: bigint | undefined): void;
  setState(state: NodeState): void;
  /** Answers heartbeats with known: false until the next registration. */
  forget(): void;
  setForgetting(forgetting: boolean): void;
  stop(): Promise<void>;
}

export async function startFakeController(
  options: { readonly heartbeatMs?: number; readonly listen?: string } = {},
): Promise<FakeController> {
  const { heartbeatMs = 200, listen = "127.0.0.1:0" } = options;
  const headers: RegisterHeader[] = [];
  const heartbeats: HeartbeatRequest[] = [];
  const acknowledged: AcknowledgeRequest[] = [];
  let fingerprints = new Map<string, PluginFingerprint>();
  let journalUid = "";
  let nodeEpoch = 0;
  let posed: bigint | undefined;
  let known = "";
  let state: NodeState = NodeState.NODE_STATE_READY;
  let forgetting = true;
  const keyOf = (plugin: string, instance: string) => `${plugin} ${instance}`;

  const server = createGrpcServer({ log: createMemoryLogger(), reflection: false });
  server.add(ControllerLinkServiceDefinition, {
    async register(requests) {
      let header: RegisterHeader | undefined;
      fingerprints = new Map();
      for await (const chunk of requests) {
        header ??= chunk.header;
        if (chunk.plugin !== undefined)
          fingerprints.set(keyOf(chunk.plugin.plugin, chunk.plugin.instanceId), chunk.plugin);
      }
      if (header === undefined) throw new Error("a registration without a header");
      headers.push(header);
      if (header.journalUid !== journalUid) nodeEpoch = Math.max(nodeEpoch, Number(header.nodeEpoch)) + 1;
      journalUid = header.journalUid;
      known = header.instance;
      const heartbeatInterval = { seconds: BigInt(Math.floor(heartbeatMs / 1000)), nanos: (heartbeatMs % 1000) * 1e6 };
      return {
        nodeEpoch: posed ?? BigInt(nodeEpoch),
        controllerId: "fake",
        heartbeatInterval,
        clusterUid: "cluster-1",
        state,
        controllerAddresses: [],
      };
    },
    async heartbeat(request) {
      heartbeats.push(request);
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
  });
  const address = await server.listen(listen);
  const stop = () => server.stop({ graceMs: 0 });
  onTestFinished(stop);
  return {
    address,
    headers,
    heartbeats,
    acknowledged,
    fingerprints: () => [...fingerprints.values()],
    nodeEpoch: () => nodeEpoch,
    answerNodeEpoch(wanted) {
      posed = wanted;
    },
    setState(next) {
      state = next;
    },
    forget() {
      known = "";
    },
    setForgetting(next) {
      forgetting = next;
    },
    stop,
  };
}
