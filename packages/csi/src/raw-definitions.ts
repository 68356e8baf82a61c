/**
 * CSI for a client that leaves the messages alone: bytes in, bytes out. Encoding and decoding are done by the caller, so
 * that a relayed call takes the same way as our own, and a reply that cannot be decoded is seen as what it is.
 */
import type { MethodDefinition } from "nice-grpc";
import { type CsiMethod, methodNames, methods, pathOf, type StreamMethod, type UnaryMethod } from "./methods.ts";

type Raw<Streaming extends boolean> = MethodDefinition<
  Uint8Array,
  Uint8Array,
  Uint8Array,
  Uint8Array,
  false,
  Streaming
>;

const asIs = (bytes: Uint8Array): Uint8Array => bytes;

const raw = <Streaming extends boolean>(method: CsiMethod, responseStream: Streaming): Raw<Streaming> => ({
  path: pathOf(method),
  requestStream: false,
  responseStream,
  requestSerialize: asIs,
  requestDeserialize: asIs,
  responseSerialize: asIs,
  responseDeserialize: asIs,
  options: {},
});

const isStream = (method: CsiMethod): method is StreamMethod => methods[method].kind === "stream";

export const rawStreams = Object.fromEntries(
  methodNames.filter(isStream).map((method) => [method, raw(method, true)]),
) as Record<StreamMethod, Raw<true>>;

export const rawUnaries = Object.fromEntries(
  methodNames.filter((method) => !isStream(method)).map((method) => [method, raw(method, false)]),
) as Record<UnaryMethod, Raw<false>>;
