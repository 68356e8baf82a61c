import { type ChannelInterface, connectivityState } from "@grpc/grpc-js";
import type { Channel } from "nice-grpc";

/** A channel of nice-grpc that is nothing but its calls: no name to resolve, no balancing, no state of its own. */
export function createCallChannel(
  target: string,
  createCall: (path: string, number: number) => ReturnType<Channel["createCall"]>,
  close: () => void = () => undefined,
): Channel {
  let calls = 0;
  const channel: ChannelInterface = {
    createCall(path) {
      calls += 1;
      return createCall(path, calls);
    },
    getTarget: () => target,
    // Nobody waits for it to change: a call that cannot be sent says so at once.
    getConnectivityState: () => connectivityState.READY,
    watchConnectivityState() {
      throw new Error(`${target}: this channel does not tell of its state`);
    },
    getChannelzRef() {
      throw new Error(`${target}: this channel has no channelz`);
    },
    close,
  };
  // nice-grpc names grpc-js's class as the type; all that either of them calls is its interface.
  return channel as unknown as Channel;
}
