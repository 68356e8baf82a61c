/** One stream of an agent at this controller: its calls, its bodies, and when it is the node's. The invariants are those of link-service.ts. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { Pace } from "@holdfast/shared/async/pace";
import { HoldfastError, invalidArgument, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { AgentLinkServiceDefinition, Reconnect } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { CallSurround } from "@holdfast/shared/grpc/call-surround";
import { peerHeader } from "@holdfast/shared/grpc/caller-interceptor";
import { createServedMethods } from "@holdfast/shared/grpc/stream/served-methods";
import { createStreamCalls, type StreamCalls } from "@holdfast/shared/grpc/stream/stream-calls";
import { createTransferMeeting, type TransferMeeting } from "@holdfast/shared/grpc/stream/transfer-meeting";
import type { AgentStream, AgentStreams } from "./agent-streams.ts";
import type { AgentHello } from "./read-hello.ts";

export type AgentLink = Implementation<typeof AgentLinkServiceDefinition>;

export interface OpenStreamOptions {
  readonly hello: AgentHello;
  /** Of the agent, in base64; undefined where there is no TLS. */
  readonly certificate: string | undefined;
  readonly streams: Pick<AgentStreams, "add" | "remove">;
  readonly link: AgentLink;
  readonly surround: Pick<CallSurround, "service">;
  readonly clock: Pick<Clock, "timer">;
  readonly endOfTurn: (then: () => void) => void;
  readonly patienceMs: number;
  readonly transferPace: Pick<Pace, "take">;
}

export interface OpenStream
  extends Pick<AgentStream, "reconnect" | "end">,
    Pick<StreamCalls, "frames" | "take" | "idle" | "load" | "ended">,
    Pick<TransferMeeting, "arrived"> {
  readonly hello: AgentHello;
  /** What the agent sent that cannot be read. */
  failure(): HoldfastError | undefined;
}

export const openStream = (options: OpenStreamOptions): OpenStream => {
  const { hello, streams, link, surround, clock, endOfTurn, patienceMs, transferPace: pace } = options;
  const { node, instance } = hello;
  const meeting = createTransferMeeting({ clock, patienceMs, pace });
  let over = false;
  let failure: HoldfastError | undefined;

  const served = createServedMethods({
    definition: AgentLinkServiceDefinition,
    implementation: {
      ...link,
      async register(request, context) {
        if (request.header !== undefined) checkSame(hello, request.header);
        const answer = await link.register(request, context);
        // LS2: the answer is on its way when the turn ends, and the first order goes after it.
        endOfTurn(() => {
          if (!over) streams.add(stream);
        });
        return answer;
      },
    },
    surround,
    peer: { identity: { role: "node", name: node }, [peerHeader]: options.certificate }, // LS1
  });
  const calls = createStreamCalls({
    side: "controller",
    peer: `the agent of node ${node}`,
    served,
    transfers: meeting.bodies,
    onNotice() {
      throw invalidArgument([{ field: "hello", description: "was said before" }]);
    },
  });

  /** LS3 */
  const end = (why: string): void => {
    if (over) return;
    over = true;
    streams.remove(stream, why);
    calls.end(why);
    meeting.end();
  };
  const reconnect = (reason: string, jitterMs: number): void =>
    calls.notify(Reconnect.encode({ reason, jitterMs }).finish());
  const stream: AgentStream = { node, instance, channel: calls.channel, reconnect, end };

  return {
    hello,
    frames: calls.frames,
    idle: calls.idle,
    load: calls.load,
    ended: calls.ended,
    arrived: meeting.arrived,
    reconnect,
    end,
    take(frame) {
      try {
        calls.take(frame);
      } catch (error) {
        if (isHoldfastError(error)) failure = error; // LS4
        throw error;
      }
    },
    failure: () => failure,
  };
};

const checkSame = (
  { node, instance }: AgentHello,
  header: { readonly name: string; readonly instance: string },
): void => {
  if (header.name === node && header.instance === instance) return;
  throw new HoldfastError({
    kind: "precondition",
    reason: "NODE_MISMATCH",
    message: `process ${header.instance} of node ${header.name} may not register on a stream of process ${instance} of node ${node}; each opens its own`,
    metadata: { node: header.name, wanted: node },
  });
};
