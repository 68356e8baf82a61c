import { createCallChannel } from "../call-channel.ts";
import type { GrpcChannel } from "../client.ts";
import { notSent } from "./stream-errors.ts";
import { endOfError } from "./wire-status.ts";

/** Where there is no stream: every call fails at once with NOT_SENT. */
export function createAbsentChannel(why: string): GrpcChannel {
  return createCallChannel("an absent stream", (_path, number) => ({
    // Later: whoever starts a call does not expect its end before that has returned.
    start: (_metadata, listener) =>
      queueMicrotask(() => listener.onReceiveStatus(endOfError(notSent("the other side", why)))),
    sendMessageWithContext: ({ callback }) => callback?.(),
    startRead: () => undefined,
    halfClose: () => undefined,
    cancelWithStatus: () => undefined,
    getPeer: () => "nobody",
    getCallNumber: () => number,
    setCredentials: () => undefined,
    getAuthContext: () => null,
  }));
}
