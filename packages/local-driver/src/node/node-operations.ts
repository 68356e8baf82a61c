import type { DriverSettings, NodeOperations } from "../operations.ts";
import type { Host } from "../ports.ts";
import { expandNode } from "./expand-node.ts";
import type { NodeParts } from "./node-parts.ts";
import { publish } from "./publish.ts";
import { recover } from "./recover.ts";
import { stage } from "./stage.ts";
import { stats } from "./stats.ts";
import { unpublish } from "./unpublish.ts";
import { unstage } from "./unstage.ts";

export function createNodeOperations(given: {
  readonly host: Host;
  readonly settings: DriverSettings;
  readonly undoMs?: number;
}): NodeOperations {
  const parts: NodeParts = { undoMs: 30_000, ...given };
  return {
    stage: (input, signal) => stage(parts, input, signal),
    unstage: (input, signal) => unstage(parts, input, signal),
    publish: (input, signal) => publish(parts, input, signal),
    unpublish: (input, signal) => unpublish(parts, input, signal),
    stats: (input, signal) => stats(parts, input, signal),
    expand: (input, signal) => expandNode(parts, input, signal),
    recover: (signal) => recover(parts, signal),
  };
}
