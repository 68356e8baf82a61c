/** One attempt of a call: what goes into its metadata, its span, and the details of its error. */
import { context as active } from "@opentelemetry/api";
import { type CallOptions, type ClientMiddleware, type ClientMiddlewareCall, Metadata } from "nice-grpc-common";
import { errorDetailsClientMiddleware } from "nice-grpc-error-details";
import { withoutStack } from "../errors/without-stack.ts";
import { timeoutHeader } from "./deadline-client.ts";
import { formatIdentity, type Identity, identityHeader } from "./identity.ts";
import { inContext } from "./trace-attributes.ts";
import { createClientSpans } from "./trace-client.ts";

export interface AttemptOptions {
  /** On the monotonic clock. */
  deadlineAt?: number;
}

/** One middleware for all of it, and one copy of the caller's metadata: each layer of generators costs a call some promises. */
export function attemptMiddleware(identity: Identity | undefined): ClientMiddleware<AttemptOptions> {
  const spanOf = createClientSpans();
  const caller = identity === undefined ? undefined : formatIdentity(identity);
  return async function* attempt<Request, Response>(
    call: ClientMiddlewareCall<Request, Response>,
    { deadlineAt, ...options }: CallOptions & AttemptOptions,
  ) {
    const metadata = Metadata(options.metadata);
    if (caller !== undefined) metadata.set(identityHeader, caller);
    if (deadlineAt !== undefined) metadata.set("grpc-timeout", timeoutHeader(deadlineAt));
    const span = spanOf(call.method.path, metadata);
    const send = () => errorDetailsClientMiddleware(call, { ...options, metadata });
    let failure: { readonly error: unknown } | undefined;
    try {
      if (call.responseStream) return yield* span === undefined ? send() : inContext(span.context, send);
      const sent = () => withoutStack(() => send().next());
      const answer = await (span === undefined ? sent() : active.with(span.context, sent));
      return answer.value as Response;
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      span?.end(failure);
    }
  };
}
