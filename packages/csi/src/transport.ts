/**
 * The way a CSI call takes, as bytes: straight down a plugin's socket, or through the agent on the host where the plugin runs.
 * What went wrong is a value here, so that nothing above has to tell one library's exceptions from another's.
 */
import type { StreamMethod, UnaryMethod } from "./methods.ts";
import type { Code } from "./outcome.ts";

export interface WireOptions {
  readonly signal: AbortSignal;
  /** Told to the plugin, and kept here too. For a stream: between two messages. */
  readonly deadlineMs: number;
  /** For a stream: how long all of it may take. Told to the plugin. */
  readonly totalMs?: number | undefined;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface WireFailure {
  readonly code: Code;
  /** As it came: unscrubbed, uncut. */
  readonly message: string;
  /** False: the plugin cannot have seen the call. */
  readonly sent: boolean;
}

export type WireReply = { readonly bytes: Uint8Array } | { readonly failure: WireFailure };

export interface CsiTransport {
  unary(method: UnaryMethod, request: Uint8Array, options: WireOptions): Promise<WireReply>;
  /** A failure ends the stream and is its last item; a stream that ends without one is complete. */
  stream(method: StreamMethod, request: Uint8Array, options: WireOptions): AsyncIterable<WireReply>;
}
