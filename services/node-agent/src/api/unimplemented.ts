/** RPCs that this version has in its API only: UNIMPLEMENTED with a reason, so that a caller can tell it from an old server. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { CompatServiceDefinition } from "nice-grpc";

export function notImplemented(method: string): HoldfastError {
  return new HoldfastError({
    kind: "unimplemented",
    reason: "NOT_IMPLEMENTED",
    message: `${method} is part of the API and not of this version yet`,
    metadata: { method },
  });
}

interface Described {
  readonly fullName: string;
  readonly methods: Readonly<Record<string, { readonly name: string; readonly responseStream: boolean }>>;
}

/** A service of which nothing is there yet. */
export function unimplementedService<Definition extends CompatServiceDefinition & Described>(
  definition: Definition,
): Implementation<Definition> {
  const handlers: Record<string, unknown> = {};
  for (const [key, { name, responseStream }] of Object.entries(definition.methods)) {
    const method = `/${definition.fullName}/${name}`;
    handlers[key] = responseStream ? () => failingStream(method) : () => Promise.reject(notImplemented(method));
  }
  return handlers as Implementation<Definition>;
}

/** A stream that ends before its first message. */
export function failingStream<T>(method: string): AsyncIterable<T> {
  return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(notImplemented(method)) }) };
}
