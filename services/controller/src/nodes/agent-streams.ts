/**
 * The registered streams of agents, by node, and the way to each node.
 *
 * AS1 A call goes to the stream that registered last; an older one of the same process keeps the calls that are under way there.
 * AS2 A process that registers later replaces the former one: the streams of the former one end. AS3 Where there is no stream, a call
 * fails at once, and was not sent. AS4 The registry learns of the first stream of a process and of the end of the last one.
 */
import { createEmitter } from "@holdfast/shared/async/emitter";
import { createCallChannel } from "@holdfast/shared/grpc/call-channel";
import type { GrpcChannel } from "@holdfast/shared/grpc/client";
import { createAbsentChannel } from "@holdfast/shared/grpc/stream/absent-channel";

export interface AgentStream {
  readonly node: string;
  /** The process at the other end. */
  readonly instance: string;
  readonly channel: GrpcChannel;
  /** Tells the agent that another stream is wanted in place of this one. */
  reconnect(reason: string, jitterMs: number): void;
  end(why: string): void;
}

/** Who has to know whose stream is here. */
export interface LinkWatcher {
  linked(node: string, instance: string): void;
  unlinked(node: string, instance: string, why: string): void;
}

export interface AgentStreams {
  /** Its Register was answered; may be said again of the same stream. */
  add(stream: AgentStream): void;
  /** It has ended, whether it had registered or not. */
  remove(stream: AgentStream, why: string): void;
  /** Leads to the stream that the node has at the time of each call. */
  channelTo(node: string): GrpcChannel;
  /** Asks the node for another stream in place of each that it has here. */
  reconnect(node: string, reason: string, jitterMs: number): void;
  /** A stream of the node begins: whatever is owed there can be asked at once. */
  onLink(listener: (node: string) => void): () => void;
}

/** The newest is the last. */
interface Linked {
  readonly instance: string;
  readonly streams: AgentStream[];
}

export const createAgentStreams = (watcher: LinkWatcher): AgentStreams => {
  const nodes = new Map<string, Linked>();
  const listeners = createEmitter<[node: string]>();

  /** AS2 */
  const replace = ({ streams, instance }: Linked, node: string): void => {
    const why = "another process of the agent has registered";
    watcher.unlinked(node, instance, why);
    for (const stream of streams) stream.end(why);
  };

  return {
    add(stream) {
      const { node, instance } = stream;
      const before = nodes.get(node);
      const known = before?.instance === instance ? before : { instance, streams: [] };
      nodes.set(node, known);
      if (!known.streams.includes(stream)) known.streams.push(stream); // AS1
      watcher.linked(node, instance); // AS4: a node that was forgotten meanwhile has no link before it is told again
      if (before !== undefined && before !== known) replace(before, node);
      listeners.tell(node);
    },
    remove(stream, why) {
      const { node, instance } = stream;
      const known = nodes.get(node);
      const at = known?.streams.indexOf(stream) ?? -1;
      if (known === undefined || at === -1) return;
      known.streams.splice(at, 1);
      if (known.streams.length > 0) return;
      nodes.delete(node);
      watcher.unlinked(node, instance, why); // AS4
    },
    channelTo(node) {
      const absent = createAbsentChannel(`the agent of node ${node} has no stream to this controller`); // AS3
      return createCallChannel(`the agent of node ${node}`, (path) => {
        const { channel } = nodes.get(node)?.streams.at(-1) ?? { channel: absent }; // AS1
        // Deadline and parent are grpc-js's own; neither channel knows them.
        return channel.createCall(path, Number.POSITIVE_INFINITY, null, null, null);
      });
    },
    reconnect(node, reason, jitterMs) {
      for (const stream of nodes.get(node)?.streams ?? []) stream.reconnect(reason, jitterMs);
    },
    onLink: listeners.on,
  };
};
