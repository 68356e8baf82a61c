/** Sound frames of both directions, and the services behind them with nothing but their edges: what reaches the inside is kept, to be judged. */

import { unimplemented } from "@holdfast/controller/api/unimplemented";
import { createControllerLinkService } from "@holdfast/controller/nodes/controller-link-service";
import { systemClock } from "@holdfast/shared/async/clock";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  AgentLinkServiceDefinition,
  FromAgent,
  ToAgent,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import { createServedMethods, type ServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { type AgentServiceOptions, createAgentService } from "../../services/node-agent/src/api/agent-service.ts";

/** What was handed to the inside, since it was last emptied. */
export const inside: unknown[] = [];
const keep =
  <T>(answer: T) =>
  async (...given: readonly unknown[]): Promise<T> => {
    inside.push(...given.filter((one) => !(one instanceof AbortSignal)));
    return answer;
  };

export const log = createMemoryLogger();
const surround = createCallSurround({ log, address: () => "fuzz" });

const link = createControllerLinkService({
  registry: {
    register: keep({ nodeEpoch: 1, state: "READY" } as never),
    report: keep({ known: true, record: undefined } as never),
    get: () => ({}) as never,
  },
  acknowledgements: { released: keep([]), lost: keep(undefined) },
  news: { take: keep(undefined) },
  clock: systemClock,
  log,
  controllerId: "c1",
  clusterUid: async () => "cluster",
});

const agent = createAgentService({
  node: "n1",
  startingBecause: () => undefined,
  onDoubt: () => undefined,
  volumes: {
    publish: keep({ kind: "refused", reason: "STALE_EPOCH", message: "m", floor: { gen: 1, ctr: 1 } } as never),
    release: keep({ kind: "refused", reason: "STALE_EPOCH", message: "m", floor: { gen: 1, ctr: 1 } } as never),
    expand: keep({ kind: "refused", reason: "STALE_EPOCH", message: "m", floor: { gen: 1, ctr: 1 } } as never),
    inventory: async () => ({ volumes: [], orphans: [] }),
  },
  ledger: {
    uid: "j",
    damage: undefined,
    agent: () => ({ promisedGen: 1, promisedTo: "v", nodeEpoch: 1, bootId: "b" }) as never,
    commitAgent: keep(undefined),
  },
  scope: "host",
  renew: (...given) => void inside.push(given),
  stats: { volumeStats: keep(undefined) as never, published: () => [] },
  relay: {
    unary: keep({ response: new Uint8Array() }),
    async *stream(order) {
      inside.push(order);
      yield { response: new Uint8Array() };
    },
    quiesce: keep({ idle: true }),
    openCalls: () => [],
  },
  now: () => new Date(0),
} as AgentServiceOptions);

const epoch = { gen: 1n, ctr: 5n };
const names = { namespace: "ns", volume: "data", volumeUid: "u-1", claimUid: "k-1" };
const subject = { ...names, externalId: "e-1", plugin: "csi.example.com", node: "n1", nodeEpoch: 1n, epoch };
const vetting = { gen: 1n, uid: "v" };
const header = { name: "n1", machineId: "m", bootId: "b", instance: "i", journalUid: "j", version: "1", nodeEpoch: 1n };
const plugin = { plugin: "csi.example.com", instanceId: "p-1", version: "1", nodeId: "n-1", maxVolumes: 16n };
const since = new Date(1_700_000_000_000);
const call = { method: "NodeStageVolume", instance: "p-1", since, deadline: since, attempt: 1 };
const ailing = { since, reason: "MOUNT_LOST", message: "m", missingProof: "p", clearWith: "c" };
const head = { seq: 7n, timeLeftMs: 1000, identity: "", traceparent: "", tracestate: "", requestId: "r" };
const permit = {
  ...{ ...subject, workload: "w", alias: "a", oldestLiveEpoch: epoch, accessMode: 1, attachmentMode: 1, attempt: 1 },
  ...{ fsType: "ext4", mountFlags: ["noatime"], volumeContext: { a: "b" }, stageSecrets: { token: "t" } },
};
const relayed = {
  plugin: "csi.example.com",
  instanceId: "p-1",
  node: "n1",
  request: Buffer.from([10, 1, 120]),
  vetting,
};

const fromAgent = (body: object) => FromAgent.fromPartial({ request: { head, ...body } } as never);
const toAgent = (body: object) => ToAgent.fromPartial({ order: { head, ...body } } as never);

export interface StreamEnd {
  readonly side: "agent" | "controller";
  readonly served: ServedMethods;
  readonly type: { encode(message: never): { finish(): Uint8Array }; decode(bytes: Uint8Array): unknown };
  readonly frames: readonly unknown[];
}

/** Who takes the frames, and sound ones for it. */
export const streamEnds: readonly StreamEnd[] = [
  {
    side: "controller",
    type: FromAgent,
    served: createServedMethods({
      definition: AgentLinkServiceDefinition,
      implementation: unimplemented(AgentLinkServiceDefinition, link),
      surround,
      peer: { identity: { role: "node", name: "n1" }, "x-holdfast-peer": undefined },
    }),
    frames: [
      fromAgent({ register: { header, plugins: [plugin] } }),
      fromAgent({
        report: {
          node: "n1",
          instance: "i",
          nodeEpoch: 1n,
          revision: 2n,
          changed: [plugin],
          claims: [{ ...names, epoch, ailing, call }],
        },
      }),
      fromAgent({
        acknowledge: {
          node: "n1",
          instance: "i",
          nodeEpoch: 1n,
          released: [{ ...names, epoch }],
          lost: [{ ...names, epoch, reason: "GONE" }],
        },
      }),
      fromAgent({ greet: { node: "n1" } }),
    ],
  },
  {
    side: "agent",
    type: ToAgent,
    served: createServedMethods({ definition: AgentServiceDefinition, implementation: agent, surround }),
    frames: [
      toAgent({ publish: { permit, vetting } }),
      toAgent({ release: { ...subject, attempt: 1, vetting } }),
      toAgent({ expand: { ...subject, vetting, capacity: { requiredBytes: 5n, limitBytes: 9n } } }),
      toAgent({ raiseFloor: { promisedGen: 2n, vettingUid: "v" } }),
      toAgent({ stats: { volumeUids: ["u-1"] } }),
      toAgent({ relay: { ...relayed, method: "/csi.v1.Controller/DeleteVolume" } }),
      toAgent({ quiesce: { ...relayed, subject: "s", opId: "o" } }),
      toAgent({ inventory: {} }),
      toAgent({ renew: { plugin: "csi.example.com" } }),
    ],
  },
];
