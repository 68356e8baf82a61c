/**
 * What surrounds every call of a server: stages that begin in a fixed order and end in the reverse one. All of them are one
 * middleware of nice-grpc, since each layer of generators costs a call some promises, whatever it does.
 *
 * C1 Every stage that began ends once, with what the call failed with if it did, whichever stage refused it.
 * C2 Stages, handler and ends run within the call's span. C3 The handler begins when it is the call's turn, and not at all when its caller
 * is gone by then; until it ends the call counts, whether its caller is gone or not. C4 A refusal has its turn too: its answer costs as much
 * as a small call, and a flood is refused all at once.
 */
import { context as active } from "@opentelemetry/api";
import type { CallContext as BareContext, ServerMiddleware, ServerMiddlewareCall } from "nice-grpc-common";
import type { CallContext, CallExtension } from "./call-context.ts";
import type { CallFailure, CallStage, ServerSpans, StageEnd } from "./call-stage.ts";
import type { CallTurns } from "./call-turns.ts";
import { throwStatus } from "./throw-status.ts";
import { inContext } from "./trace-attributes.ts";

export type Turns = Readonly<Record<"calls" | "refusals", Pick<CallTurns, "next">>>;

/** The first stage sees the context as the library made it; from then on it holds what the stages before have added. */
export function callMiddleware(
  spanOf: ServerSpans,
  stages: readonly CallStage[],
  turns?: Turns,
): ServerMiddleware<CallExtension> {
  type Call<Request, Response> = ServerMiddlewareCall<Request, Response, CallExtension>;

  const begin = async (
    { method, request }: Pick<Call<unknown, unknown>, "method" | "request">,
    context: CallContext,
    ends: StageEnd[],
  ): Promise<void> => {
    try {
      for (const stage of stages) {
        const end = stage(method, context, request);
        if (end !== undefined) ends.push(end);
      }
    } catch (error) {
      await turns?.refusals.next(context.signal).catch(() => undefined); // C4
      throw error;
    }
    await turns?.calls.next(context.signal); // C3
  };
  /** C1 */
  const finish = (ends: readonly StageEnd[], failure: CallFailure | undefined): void => {
    for (let at = ends.length - 1; at >= 0; at -= 1) ends[at]?.(failure);
  };

  const answered = async <Request, Response>(call: Call<Request, Response>, context: CallContext) => {
    const ends: StageEnd[] = [];
    let failure: CallFailure | undefined;
    try {
      await begin(call, context, ends);
      const { value } = await call.next(call.request, context).next();
      return value as Response;
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      finish(ends, failure);
    }
  };

  async function* streamed<Request, Response>(call: Call<Request, Response>, context: CallContext) {
    const ends: StageEnd[] = [];
    let failure: CallFailure | undefined;
    try {
      await begin(call, context, ends);
      return yield* call.next(call.request, context);
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      finish(ends, failure);
    }
  }

  return async function* surrounded<Request, Response>(call: Call<Request, Response>, bare: BareContext) {
    const context = bare as CallContext;
    const span = spanOf(call.method.path, bare.metadata);
    let failure: CallFailure | undefined;
    try {
      if (call.responseStream) {
        const stream = () => streamed(call, context);
        return yield* span === undefined ? stream() : inContext(span.context, stream); // C2
      }
      if (span === undefined) return await answered(call, context);
      return await active.with(span.context, () => answered(call, context)); // C2
    } catch (error) {
      failure = { error };
      return await throwStatus(error, call.method, bare);
    } finally {
      span?.end(failure);
    }
  };
}
