/**
 * What Redis says to a client that it does not take (protected mode, too many clients) before it closes. A client that writes at once finds
 * its connection reset and never reads it: so one that says nothing listens, once for each such end.
 */
import { connect } from "node:net";
import { callFailureOf } from "./call-failure.ts";
import type { Place } from "./redis-address.ts";

const resets = /\b(?:EPIPE|ECONNRESET)\b/;
/** A server that takes the client says nothing. */
const listenMs = 300;
const longestLine = 1024;

const firstWords = (place: Place): Promise<string | undefined> =>
  new Promise((resolve) => {
    let text = "";
    const socket = connect({ ...place, timeout: listenMs });
    const end = (): void => {
      socket.destroy();
      // The first sentence; the rest of protected mode's answer is a page about its settings.
      const told = /^-([A-Z]+ .*?)(?:\. |\.?\r|$)/.exec(text)?.[1];
      resolve(told);
    };
    socket.on("data", (part: Buffer) => {
      text += part.toString("latin1");
      if (text.includes("\n") || text.length > longestLine) end();
    });
    socket.on("timeout", end);
    socket.on("error", end);
    socket.on("close", end);
  });

export interface RefusalListener {
  /** The refusal behind an error of the connection, as far as it was heard; what is heard later is told. */
  behind(error: Error, place: Place | undefined): string | undefined;
}

export const createRefusalListener = (tell: (refusal: string) => void): RefusalListener => {
  let heard: string | undefined;
  let listening = false;
  const listen = async (place: Place): Promise<void> => {
    listening = true;
    const told = await firstWords(place);
    listening = false;
    heard =
      told === undefined ? undefined : callFailureOf(Object.assign(new Error(told), { name: "ReplyError" })).message;
    if (heard !== undefined) tell(heard);
  };
  return {
    behind(error, place) {
      if (!resets.test(error.message)) heard = undefined;
      else if (!listening && place !== undefined) void listen(place);
      return heard;
    },
  };
};
