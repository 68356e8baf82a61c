/**
 * A channel of nice-grpc over links and nothing between: no name to resolve, no balancing, no retries. What grpc-js does for these
 * makes a good part of what a call costs its caller (docs/adr/0011-links-instead-of-a-channel-stack.md).
 */
import { type ChannelInterface, connectivityState } from "@grpc/grpc-js";
import type { Channel } from "nice-grpc";
import type { Link } from "./link.ts";
import { createLinkCall } from "./link-call.ts";

export interface LinkChannelOptions {
  /** What the next call goes over: a promise of it, rejected with what is wrong; undefined if nobody dials. */
  readonly link: () => Link | Promise<Link> | undefined;
  /** For messages. */
  readonly target: string;
  /** What the server is told it is called. */
  readonly authority: string;
  readonly maxMessageBytes: number;
  readonly close: () => void;
}

export function createLinkChannel({ link, target, authority, maxMessageBytes, close }: LinkChannelOptions): Channel {
  let calls = 0;
  const channel: ChannelInterface = {
    createCall(path) {
      calls += 1;
      return createLinkCall({ link, path, target, authority, maxMessageBytes, number: calls });
    },
    getTarget: () => target,
    // Nobody waits for it to change: a call waits for its own link.
    getConnectivityState: () => connectivityState.READY,
    watchConnectivityState() {
      throw new Error(`${target}: a channel over links does not tell of its state`);
    },
    getChannelzRef() {
      throw new Error(`${target}: a channel over links has no channelz`);
    },
    close,
  };
  // nice-grpc names grpc-js's class as the type; all that either of them calls is its interface.
  return channel as unknown as Channel;
}
