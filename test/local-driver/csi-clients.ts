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
import { createChannel, createClientFactory } from "nice-grpc";
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

/** One CO: a channel of its own, also when others look at the same socket. */
export const openCsiClients = (socket: string): CsiClients => {
  const channel = createChannel(`unix://${socket}`, undefined, { "grpc.use_local_subchannel_pool": 1 });
  const factory = createClientFactory().use(deadlineMiddleware);
  return {
    identity: factory.create(IdentityDefinition, channel, defaults),
    controller: factory.create(ControllerDefinition, channel, defaults),
    group: factory.create(GroupControllerDefinition, channel, defaults),
    metadata: factory.create(SnapshotMetadataDefinition, channel, defaults),
    node: factory.create(NodeDefinition, channel, defaults),
    close: () => channel.close(),
  };
};
