import type { CallContext as BareContext, CompatServiceDefinition, ServiceImplementation } from "nice-grpc";
import type { IdentityContext } from "./identity.ts";

/** What the server adds to every call. */
export interface CallExtension extends IdentityContext {
  /** Wall-clock milliseconds by which the caller wants its answer; `signal` is aborted then. */
  readonly deadline?: number;
  /** Time left until the deadline, measured when asked. */
  remainingMs(): number;
  /** From the caller's `x-request-id`, or made here; on the log line and the span of the call. */
  readonly requestId: string;
}

/** What every handler is given: `signal` is aborted by the caller, by the deadline and by the server's own end. */
export type CallContext = BareContext & CallExtension;

/** The type of a service's handlers: `createXService(...): Implementation<typeof XServiceDefinition>`. */
export type Implementation<Definition extends CompatServiceDefinition> = ServiceImplementation<
  Definition,
  CallExtension
>;
