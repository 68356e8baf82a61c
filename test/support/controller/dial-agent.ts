/** An agent as a controller sees it: it dials, keeps one stream, and does as a test says. */
import { unimplemented } from "@holdfast/controller/api/unimplemented";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  AgentLinkServiceDefinition,
  type DeepPartial,
  Hello,
  type RegisterHeader,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { createCallSurround } from "@holdfast/shared/grpc/call-surround";
import {
  createGrpcChannel,
  createGrpcClient,
  type GrpcChannel,
  type GrpcChannelOptions,
  type GrpcClient,
} from "@holdfast/shared/grpc/client";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { noticeFrame } from "@holdfast/shared/grpc/stream/frames";
import { ServeWireDefinition } from "@holdfast/shared/grpc/stream/serve-wire";
import { createServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createStreamCalls, type StreamCalls } from "@holdfast/shared/grpc/stream/stream-calls";
import { createTransferOpener } from "@holdfast/shared/grpc/stream/transfer-opener";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { unpaced } from "@holdfast/shared/testing/unpaced";

export interface DialOptions {
  readonly node?: string;
  readonly instance?: string;
  readonly stream?: string;
  readonly identity?: Identity;
  readonly credentials?: GrpcChannelOptions["credentials"];
  /** In place of a connection of its own. */
  readonly channel?: GrpcChannel;
  readonly serve?: Partial<Implementation<typeof AgentServiceDefinition>>;
  /** What it sends first; its hello if nothing is said. */
  readonly firstFrame?: Uint8Array;
  /** Asked of each frame that comes; false: it is not read. */
  readonly onFrame?: (frame: Uint8Array) => boolean | Promise<boolean>;
  readonly onReconnect?: (bytes: Uint8Array) => void;
}

export interface DialledAgent {
  readonly calls: StreamCalls;
  readonly link: GrpcClient<typeof AgentLinkServiceDefinition>;
  readonly wire: GrpcClient<typeof ServeWireDefinition>;
  /** Registers as its hello says. */
  register(header?: DeepPartial<RegisterHeader>): Promise<void>;
  /** Sends this as it is. */
  send(frame: Uint8Array): void;
  /** As a process that dies. */
  cut(): void;
  /** As one that wants no more. */
  end(): void;
  /** What Serve ended with. */
  readonly over: Promise<unknown>;
}

export const helloFrame = (hello: Hello): Uint8Array => noticeFrame(Hello.encode(hello).finish());

let numbers = 0;

export const dialAgent = (address: string, about: DialOptions = {}): DialledAgent => {
  const log = createMemoryLogger();
  numbers += 1;
  const { node = "n1", instance = "i1", stream = `s${numbers}` } = about;
  const { credentials } = about;
  // On a channel of somebody who is known by it nothing is said.
  const identity = about.identity ?? (about.channel === undefined ? { role: "node" as const, name: node } : undefined);
  const connection = { ownConnection: true, maxMessageBytes: 256 * 1024, credentials };
  const channel = about.channel ?? createGrpcChannel(address, connection);
  const wire = createGrpcClient(ServeWireDefinition, channel, { log, ...(identity && { identity }) });
  const gone = new AbortController();
  const raw: Uint8Array[] = [];
  const calls = createStreamCalls({
    side: "agent",
    peer: "the controller of a test",
    served: createServedMethods({
      definition: AgentServiceDefinition,
      implementation: unimplemented(AgentServiceDefinition, about.serve ?? {}),
      surround: createCallSurround({ log, address: () => "an agent" }),
    }),
    transfers: createTransferOpener({
      open: (chunks, signal) => wire.transfer(chunks, { signal }),
      node,
      stream,
      limit: 4,
      pace: unpaced,
    }),
    onNotice: about.onReconnect ?? (() => undefined),
  });
  async function* sent(): AsyncGenerator<Uint8Array> {
    yield about.firstFrame ?? helloFrame({ node, instance, stream });
    for await (const frame of calls.frames) {
      yield* raw.splice(0);
      yield frame;
    }
  }
  const run = async (): Promise<unknown> => {
    try {
      for await (const frame of wire.serve(sent(), { signal: gone.signal }))
        if ((await about.onFrame?.(frame)) !== false) calls.take(frame);
      return undefined;
    } catch (error) {
      return error;
    } finally {
      calls.end("the stream has ended");
      if (about.channel === undefined) channel.close();
    }
  };
  const over = run();
  const link = createGrpcClient(AgentLinkServiceDefinition, calls.channel, { log });
  const cut = (): void => gone.abort(new Error("the agent was killed"));
  return {
    calls,
    link,
    wire,
    async register(change = {}) {
      await link.register({ header: { name: node, instance, ...change }, plugins: [] });
    },
    send(frame) {
      raw.push(frame);
      // Something has to wake who sends; the controller knows no such call.
      link.greet({ node }).catch(() => undefined);
    },
    cut,
    end: () => calls.end("it wants no more"),
    over,
  };
};
