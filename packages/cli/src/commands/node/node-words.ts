import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { enumWords } from "../../words/enum-words.ts";

export const nodeStates = enumWords<NodeState>(NodeState, "NODE_STATE_");
