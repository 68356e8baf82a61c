import {
  ControllerDefinition,
  GroupControllerDefinition,
  IdentityDefinition,
  NodeDefinition,
  SnapshotMetadataDefinition,
} from "@holdfast/shared/gen/csi/v1/csi";
import type { GrpcServer } from "@holdfast/shared/grpc/server";
import type {
  DriverSettings,
  MetadataOperations,
  NodeOperations,
  SnapshotOperations,
  VolumeOperations,
} from "../operations.ts";
import type { Space } from "../ports.ts";
import { createAdmit } from "./admit.ts";
import { createControllerService } from "./controller-service.ts";
import { createGroupControllerService } from "./group-controller-service.ts";
import { createIdentityService } from "./identity-service.ts";
import { createNodeService } from "./node-service.ts";
import type { Pending } from "./pending.ts";
import { createSnapshotMetadataService } from "./snapshot-metadata-service.ts";

export interface DriverParts {
  readonly settings: DriverSettings;
  readonly volumes: VolumeOperations;
  readonly snapshots: SnapshotOperations;
  readonly metadata: MetadataOperations;
  readonly node: NodeOperations;
  readonly space: Pick<Space, "freeBytes">;
  /** One for all sockets of the process: what is in flight on one is in flight on the others. */
  readonly pending: Pending;
  readonly ready: () => boolean;
}

/** Before listen(). All of the services of one driver, on one server. */
export const addDriverServices = (server: Pick<GrpcServer, "add" | "setServing">, parts: DriverParts): void => {
  const admit = createAdmit(parts.pending);
  server.add(IdentityDefinition, createIdentityService(parts));
  server.add(ControllerDefinition, createControllerService({ ...parts, admit }));
  server.add(GroupControllerDefinition, createGroupControllerService({ ...parts, admit }));
  server.add(SnapshotMetadataDefinition, createSnapshotMetadataService({ ...parts, admit }));
  server.add(NodeDefinition, createNodeService({ ...parts, admit }));
};

export const serviceNames: readonly string[] = [
  IdentityDefinition,
  ControllerDefinition,
  GroupControllerDefinition,
  SnapshotMetadataDefinition,
  NodeDefinition,
].map(({ fullName }) => fullName);
