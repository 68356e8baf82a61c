/**
 * A channel of nice-grpc over links and nothing between: no name to resolve, no balancing, no retries. What grpc-js does for these
 * makes a good part of what a call costs its caller (docs/adr/0011-links-instead-of-a-channel-stack.md).
 */
import type { Channel } from "nice-grpc";
import { createCallChannel } from "../call-channel.ts";
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
  return createCallChannel(
    target,
    (path, number) => createLinkCall({ link, path, target, authority, maxMessageBytes, number }),
    close,
  );
}
