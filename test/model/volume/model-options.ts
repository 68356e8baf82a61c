/** What a search is bounded by: the environment alone, never what the product may do. */
import type { Budget, PluginCall, Reply } from "./model-types.ts";

export interface OneVolumeOptions extends Budget {
  readonly gates: "relays" | "sockets";
  /** A wait for another controller, or for a gate, may be over at any time. */
  readonly silence: boolean;
  /** Calls that are sent and have not arrived, at most; the same call twice counts once. */
  readonly onTheWay: number;
  /** Replies of plugins besides OK. */
  readonly failures: readonly { readonly reply: Reply; readonly effect: boolean; readonly of?: PluginCall["method"] }[];
}
