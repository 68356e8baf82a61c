/** The edge where a server's errors change their form; the only place that does it. */
import type { CallContext, MethodDescriptor } from "nice-grpc-common";
import { errorDetailsServerMiddleware } from "nice-grpc-error-details";
import { toServerError } from "../errors/grpc-status.ts";

/**
 * Whatever a handler or a stage threw leaves as a status, with its details in the trailer. The library's middleware puts them
 * there; it is asked only for a call that failed, so that all others are spared one more layer.
 */
export async function throwStatus(error: unknown, method: MethodDescriptor, context: CallContext): Promise<never> {
  const failed = toServerError(error);
  // biome-ignore lint/correctness/useYield: it stands for a handler that fails at once
  const next = async function* (): AsyncGenerator<never, never, undefined> {
    throw failed;
  };
  const call = { method, requestStream: false, request: undefined, responseStream: false, next } as const;
  await errorDetailsServerMiddleware(call, context).next();
  throw failed;
}
