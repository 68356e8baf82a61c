import { createDrainCommands, type NodeCommandDeps } from "./drain-node.ts";
import { createFenceCommands } from "./fence-node.ts";
import { forgetNodeCommand } from "./forget-node.ts";
import type { NodeCommands } from "./node-model.ts";

/** What operators decide about nodes. */
export const createNodeCommands = (deps: NodeCommandDeps): NodeCommands => ({
  ...createDrainCommands(deps),
  ...createFenceCommands(deps),
  forgetNode: forgetNodeCommand(deps),
});
