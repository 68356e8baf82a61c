/** What a search is bounded by: the environment alone, never what the product may do. */
import type { Budget, PluginCall, Reply } from "./model-types.ts";

export interface OneVolumeOptions extends Budget {
  readonly gates: "relays" | "sockets";
  /** A wait for another controller, or for a gate, may be over at any time. */
  readonly silence: boolean;
  /** Calls that are sent and have not arrived, at most; the same call twice counts once. */
  readonly onTheWay: number;
  /** Replies of plugins besides OK. `here`: told before the call is sent. */
  readonly failures: readonly {
    readonly reply: Reply;
    readonly effect: boolean;
    readonly of?: PluginCall["method"] | "ValidateVolumeCapabilities";
    readonly here?: true;
  }[];
  /** How the volume begins; absent: it stands. `placed`: it is made for a node; `held`: by a claim; `barred`: its attach was overtaken. */
  readonly volume?: "asked for" | "placed" | "registered" | "held" | "barred";
  /** Each step finds the share that the volume is of with its own controller, or with the other one. */
  readonly shares?: true;
  /** Claims may wait no longer. */
  readonly timeouts?: boolean;
  /** What is wished for. */
  readonly wish?: "expand" | "modify";
}
