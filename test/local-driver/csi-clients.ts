import { setTimeout as sleep } from "node:timers/promises";
import {
  type ControllerClient,
  ControllerDefinition,
  type GroupControllerClient,
  GroupControllerDefinition,
  type IdentityClient,
  IdentityDefinition,
  type NodeClient,
  NodeDefinition,
  type SnapshotMetadataClient,
  SnapshotMetadataDefinition,
} from "@holdfast/shared/gen/csi/v1/csi";
import { ClientError, type ClientMiddleware, createChannel, createClientFactory, Status } from "nice-grpc";
import { type DeadlineOptions, deadlineMiddleware } from "nice-grpc-client-middleware-deadline";

export interface CsiClients {
  readonly identity: IdentityClient<DeadlineOptions>;
  readonly controller: ControllerClient<DeadlineOptions>;
  readonly group: GroupControllerClient<DeadlineOptions>;
  readonly metadata: SnapshotMetadataClient<DeadlineOptions>;
  readonly node: NodeClient<DeadlineOptions>;
  close(): void;
}

/** Of a call that names none, as a CO never waits for ever. */
const defaults = { "*": { deadline: 60_000 } };

const heldElsewhere = (error: unknown): boolean =>
  error instanceof ClientError &&
  error.code === Status.FAILED_PRECONDITION &&
  /is still in use: .*in the mount namespace of/.test(error.details);

const patienceMs = 30_000;

/**
 * Another test of this host that makes a private mount namespace keeps a copy of every mount until it ends, and the driver is right to
 * say so. A CO asks again.
 */
const whileHeldElsewhere: ClientMiddleware = async function* (call, options) {
  for (const start = performance.now(); ; )
    try {
      return yield* call.next(call.request, options);
    } catch (error) {
      if (!heldElsewhere(error) || performance.now() - start > patienceMs) throw error;
      await sleep(200);
    }
};

/** One CO: a channel of its own, also when others look at the same socket. */
export const openCsiClients = (socket: string): CsiClients => {
  const channel = createChannel(`unix://${socket}`, undefined, { "grpc.use_local_subchannel_pool": 1 });
  const factory = createClientFactory().use(whileHeldElsewhere).use(deadlineMiddleware);
  return {
    identity: factory.create(IdentityDefinition, channel, defaults),
    controller: factory.create(ControllerDefinition, channel, defaults),
    group: factory.create(GroupControllerDefinition, channel, defaults),
    metadata: factory.create(SnapshotMetadataDefinition, channel, defaults),
    node: factory.create(NodeDefinition, channel, defaults),
    close: () => channel.close(),
  };
};
