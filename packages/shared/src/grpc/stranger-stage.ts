import type { CallStage } from "./call-stage.ts";
import type { StrangerCalls } from "./stranger-calls.ts";

export function strangerStage(calls: StrangerCalls): CallStage {
  return (_method, { identity, peer }) =>
    identity.role === "anonymous" ? calls.begin(peer.replace(/:\d+$/, "")) : undefined;
}
