/** What the spans of both sides have in common. */
import { type Attributes, type Context, context, INVALID_TRACEID, type Span, SpanStatusCode } from "@opentelemetry/api";
import { Status } from "nice-grpc-common";
import { cutToBytes, statusOf } from "../errors/grpc-status.ts";
import { isHoldfastError } from "../errors/holdfast-error.ts";

/** `/package.Service/Method` taken apart, once per method: paths are few and calls are many. */
export function createMethodAttributes(): (path: string) => { readonly name: string; readonly attributes: Attributes } {
  const known = new Map<string, { name: string; attributes: Attributes }>();
  return (path) => {
    const found = known.get(path);
    if (found !== undefined) return found;
    const [, service = "", method = ""] = path.split("/");
    const made = {
      name: `${service}/${method}`,
      attributes: { "rpc.system": "grpc", "rpc.service": service, "rpc.method": method },
    };
    known.set(path, made);
    return made;
  };
}

/** Without an SDK spans are empty: then the call needs no context of its own. */
export function isTraced(span: Span): boolean {
  return span.spanContext().traceId !== INVALID_TRACEID;
}

export function endSpan(span: Span, error?: unknown): void {
  const code = error === undefined ? Status.OK : statusOf(error);
  span.setAttribute("rpc.grpc.status_code", code);
  if (error !== undefined) {
    const reason = isHoldfastError(error) ? error.reason : (Status[code] ?? String(code));
    span.setAttribute("error.type", reason);
    // The text stays out: it may hold what a plugin said. The reason is what one searches for.
    span.setStatus({ code: SpanStatusCode.ERROR, message: cutToBytes(reason, 128) });
  }
  span.end();
}

// biome-ignore lint/suspicious/noConfusingVoidType: nice-grpc's own type for what a middleware returns
type Ended<Response> = Response | void;

/** A generator changes hands at every yield, and would lose its context there; each step is entered anew. */
export async function* inContext<Response>(
  active: Context,
  make: () => AsyncGenerator<Response, Ended<Response>, undefined>,
): AsyncGenerator<Response, Ended<Response>, undefined> {
  const inner = context.with(active, make);
  let done = false;
  try {
    for (;;) {
      const step = await context.with(active, () => inner.next());
      if (step.done) {
        done = true;
        return step.value;
      }
      yield step.value;
    }
  } catch (error) {
    done = true;
    throw error;
  } finally {
    // The consumer stopped early: the inner generator must run its clean-up as well.
    if (!done) await context.with(active, () => inner.return(undefined));
  }
}
