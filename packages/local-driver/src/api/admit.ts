import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { checkRequest } from "./check-request.ts";
import type { Pending } from "./pending.ts";
import { pendingKeys } from "./pending-keys.ts";
import type { Method, Requests } from "./requests.ts";

/** The one way from a handler to an operation: the request is checked, its keys are taken, and the caller's deadline goes along. */
export type Admit = <M extends Method, A>(
  method: M,
  request: Requests[M],
  context: Pick<CallContext, "signal">,
  act: (signal: AbortSignal) => Promise<A>,
) => Promise<A>;

export const createAdmit =
  (pending: Pending): Admit =>
  async (method, request, { signal }, act) => {
    checkRequest(method, request);
    signal.throwIfAborted();
    return await pending.during(method, pendingKeys[method](request), () => act(signal));
  };
