import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { CompatServiceDefinition } from "nice-grpc";

/** Tells this version from a server that has never heard of the RPC, or of the field of it. */
export const notImplemented = (method: string): HoldfastError =>
  new HoldfastError({
    kind: "unimplemented",
    reason: "NOT_IMPLEMENTED",
    message: `${method} is in the API and not in this version yet`,
    metadata: { method },
  });

interface Described {
  readonly fullName: string;
  readonly methods: Readonly<Record<string, { readonly name: string; readonly responseStream: boolean }>>;
}

/** A stream that fails before its first message. */
const failingStream = (method: string): AsyncIterable<never> => ({
  [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(notImplemented(method)) }),
});

/** The whole service: what is implemented, and for every other RPC of the definition the same answer. None can be forgotten. */
export const unimplemented = <Definition extends CompatServiceDefinition & Described>(
  definition: Definition,
  implemented: Partial<Implementation<Definition>>,
): Implementation<Definition> => {
  const handlers: Record<string, unknown> = { ...implemented };
  for (const [key, { name, responseStream }] of Object.entries(definition.methods)) {
    if (Object.hasOwn(handlers, key)) continue;
    const method = `/${definition.fullName}/${name}`;
    handlers[key] = responseStream ? () => failingStream(method) : () => Promise.reject(notImplemented(method));
  }
  return handlers as Implementation<Definition>;
};
