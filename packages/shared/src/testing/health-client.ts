import { HealthDefinition } from "nice-grpc-server-health";
import { createGrpcClient, type GrpcChannel } from "../grpc/client.ts";
import type { Logger } from "../log/logger.ts";

/** Asks grpc.health.v1. */
export const healthClient = (channel: GrpcChannel, log: Logger) => createGrpcClient(HealthDefinition, channel, { log });
