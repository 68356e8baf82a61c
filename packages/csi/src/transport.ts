/**
 * The way a CSI call takes, as bytes: straight down a plugin's socket, or through the agent on the host where the plugin runs.
 * What went wrong is a value here, so that nothing above has to tell one library's exceptions from another's.
 */

import type { CallOrder } from "@holdfast/model/call-order";
import type { StreamMethod, UnaryMethod } from "./methods.ts";
import type { Code } from "./outcome.ts";

export interface WireOptions {
  readonly signal: AbortSignal;
  /** Told to the plugin, and kept here too; undefined: the call takes as long as it takes. For a stream: between two messages. */
  readonly deadlineMs: number | undefined;
  /** For a stream: how long all of it may take. Told to the plugin. */
  readonly totalMs?: number | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  /** Aborted when the last caller has gone and the call goes on: from then on it takes no place of the calls at once. */
  readonly left?: AbortSignal | undefined;
  /** The attempt that the call belongs to; without it the holder of the socket compares nothing. */
  readonly order?: CallOrder | undefined;
}

export interface WireFailure {
  readonly code: Code;
  /** As it came: unscrubbed, uncut. */
  readonly message: string;
  /** False: the plugin cannot have seen the call. */
  readonly sent: boolean;
  /** The plugin itself sent this status. Otherwise nobody knows whether the call goes on there. */
  readonly answered?: boolean;
  /** A later call of the subject has left, or may have: this one never leaves, and nothing is known of what it asks for. */
  readonly stale?: boolean;
}

export type WireReply = { readonly bytes: Uint8Array } | { readonly failure: WireFailure };

export interface CsiTransport {
  unary(method: UnaryMethod, request: Uint8Array, options: WireOptions): Promise<WireReply>;
  /** A failure ends the stream and is its last item; a stream that ends without one is complete. */
  stream(method: StreamMethod, request: Uint8Array, options: WireOptions): AsyncIterable<WireReply>;
}
