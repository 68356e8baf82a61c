/** One concern of every call of a server: identity, deadline, log line and the like. */
import type { Context } from "@opentelemetry/api";
import type { Metadata, MethodDescriptor } from "nice-grpc-common";
import type { CallContext } from "./call-context.ts";

export interface CallFailure {
  readonly error: unknown;
}

export type StageEnd = (failure: CallFailure | undefined) => void;

/**
 * Begins: adds to the context, or refuses the call by throwing. What it answers is called when the call is over. Of a method with a stream of
 * requests the request is that stream.
 */
export type CallStage = (method: MethodDescriptor, context: CallContext, request: unknown) => StageEnd | undefined;

export interface ServerSpan {
  readonly context: Context;
  end(failure: CallFailure | undefined): void;
}

/** Undefined for what is not traced. */
export type ServerSpans = (path: string, metadata: Metadata) => ServerSpan | undefined;
