import { ControllerDefinition, NodeDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import { createServer } from "nice-grpc";
import { announce } from "./announce.ts";
import { stub } from "./stub.ts";

/** node plugin-main.ts SOCKET: stands for the plugins, controller's and node's, and does nothing at all. */
const [socket = ""] = process.argv.slice(2);
const server = createServer();
server.add(
  ControllerDefinition,
  stub({
    controllerPublishVolume: async () => ({ publishContext: { device: "/dev/sim0", node: "node-a" } }),
    controllerUnpublishVolume: async () => ({}),
  }),
);
server.add(
  NodeDefinition,
  stub({
    nodeStageVolume: async () => ({}),
    nodePublishVolume: async () => ({}),
    nodeUnpublishVolume: async () => ({}),
    nodeUnstageVolume: async () => ({}),
  }),
);
await server.listen(`unix://${socket}`);
announce(socket);
