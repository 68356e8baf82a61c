/**
 * The methods of one service, as they are served over a stream: bytes in, bytes out, through the same surround as the calls of a server.
 * How a call failed comes as a ToldStatus.
 */
import type { CompatServiceDefinition, TsProtoServiceDefinition } from "nice-grpc";
import {
  type CallContext as BareContext,
  Metadata,
  type MethodDescriptor,
  type ServerMiddlewareCall,
} from "nice-grpc-common";
import type { CallHead } from "../../gen/holdfast/internal/v1/controller_link.ts";
import type { CallExtension, Implementation } from "../call-context.ts";
import type { CallSurround } from "../call-surround.ts";
import { metadataOf, type StreamPeer } from "./call-head.ts";
import { type MessagePieces, piecesOfMessage } from "./message-pieces.ts";
import { bodyMalformed } from "./stream-errors.ts";
import { statusOfError, statusOfFailure, ToldStatus } from "./wire-status.ts";

export interface ServedCaller {
  readonly head: CallHead;
  readonly peer: string;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

export type ServedMethod =
  | { readonly streams: false; answer(request: Uint8Array, caller: ServedCaller): Promise<MessagePieces> }
  | { readonly streams: true; answers(request: Uint8Array, caller: ServedCaller): AsyncGenerator<MessagePieces> };

export interface ServedMethods {
  readonly service: string;
  find(path: string): ServedMethod | undefined;
}

export interface ServedMethodsOptions<Definition extends CompatServiceDefinition> {
  readonly definition: Definition;
  readonly implementation: Implementation<Definition>;
  readonly surround: Pick<CallSurround, "service">;
  /** Whoever is at the other end, as it was told there; without it: whom the head of the call names. */
  readonly peer?: StreamPeer;
}

type Definitions = TsProtoServiceDefinition;
type MethodDefinition = Definitions["methods"][string];
type Handler = (request: unknown, context: BareContext) => Promise<unknown> | AsyncIterable<unknown>;

export function createServedMethods<Definition extends Definitions>({
  definition,
  implementation,
  surround,
  peer,
}: ServedMethodsOptions<Definition>): ServedMethods {
  const handlers = implementation as unknown as Readonly<Record<string, Handler>>;
  const methods = new Map<string, ServedMethod>();
  for (const [key, method] of Object.entries(definition.methods)) {
    const path = `/${definition.fullName}/${method.name}`;
    if (method.requestStream) throw new Error(`${path}: what is asked over a stream is one message`);
    const handle: Handler = (request, context) => {
      const handler = handlers[key];
      if (handler === undefined) throw new Error(`${path} has no handler`);
      return handler.call(handlers, request, context);
    };
    methods.set(path, servedMethod(path, method, handle, surround, peer));
  }
  return { service: definition.fullName, find: (path) => methods.get(path) };
}

function servedMethod(
  path: string,
  { requestType, responseType, responseStream, options }: MethodDefinition,
  handle: Handler,
  { service }: Pick<CallSurround, "service">,
  streamPeer: StreamPeer | undefined,
): ServedMethod {
  const method: MethodDescriptor = { path, requestStream: false, responseStream, options };
  const encode = (message: unknown): MessagePieces =>
    piecesOfMessage(responseType, responseType.fromPartial === undefined ? message : responseType.fromPartial(message));
  const readable = <T>(read: () => T): T => {
    try {
      return read();
    } catch (error) {
      throw new ToldStatus(statusOfError(bodyMalformed(path, error)));
    }
  };
  const decode = (bytes: Uint8Array): unknown => readable(() => requestType.decode(bytes));
  const contextOf = ({ head, peer, signal }: ServedCaller): BareContext => ({
    // Letters that no header can have are the peer's mistake.
    metadata: readable(() => metadataOf(head, streamPeer)),
    peer,
    header: Metadata(),
    // An answer has no header here.
    sendHeader: () => undefined,
    trailer: Metadata(),
    signal,
  });
  /** As the library runs a handler: one that answers is a generator that only returns. */
  const surrounded = (request: unknown, context: BareContext): AsyncGenerator<unknown, unknown, undefined> => {
    const next = responseStream
      ? async function* (given: unknown, within: BareContext) {
          yield* handle(given, within) as AsyncIterable<unknown>;
        }
      : // biome-ignore lint/correctness/useYield: the library's own form of a handler that answers
        async function* (given: unknown, within: BareContext) {
          return await (handle(given, within) as Promise<unknown>);
        };
    const call = { method, requestStream: false, request, responseStream, next } as unknown;
    return service(call as ServerMiddlewareCall<unknown, unknown, CallExtension>, context);
  };

  if (!responseStream) {
    return {
      streams: false,
      async answer(bytes, caller) {
        const request = decode(bytes);
        const context = contextOf(caller);
        try {
          return encode((await surrounded(request, context).next()).value);
        } catch (error) {
          throw new ToldStatus(statusOfFailure(error, context.trailer));
        }
      },
    };
  }
  return {
    streams: true,
    async *answers(bytes, caller) {
      const request = decode(bytes);
      const context = contextOf(caller);
      try {
        for await (const message of surrounded(request, context)) yield encode(message);
      } catch (error) {
        throw new ToldStatus(statusOfFailure(error, context.trailer));
      }
    },
  };
}
