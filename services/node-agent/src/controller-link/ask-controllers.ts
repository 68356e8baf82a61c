/**
 * Asks any controller with a stream: the one that answered last first, then the others. The next one is
 * asked only when this one was away. This one may have done the call all the same, so that each call has to be one that can be repeated.
 */
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";

export interface ControllersToAsk<Client> {
  readonly node: string;
  /** With whom a stream is registered now. */
  readonly controllers: () => readonly { readonly address: string; readonly client: Client }[];
}

export type AskControllers<Client> = <T>(call: (client: Client) => Promise<T>, signal: AbortSignal) => Promise<T>;

export function askControllers<Client>({ node, controllers }: ControllersToAsk<Client>): AskControllers<Client> {
  let preferred = "";
  return async (call, signal) => {
    let last: unknown;
    const known = controllers();
    const first = known.filter(({ address }) => address === preferred);
    for (const { address, client } of [...first, ...known.filter((it) => !first.includes(it))]) {
      signal.throwIfAborted();
      try {
        const answer = await call(client);
        preferred = address;
        return answer;
      } catch (error) {
        signal.throwIfAborted();
        if (!isHoldfastError(error) || !isAway(error)) throw error;
        last = error;
      }
    }
    const why = isHoldfastError(last) ? `: ${last.message}` : "";
    throw new HoldfastError({
      kind: "unavailable",
      reason: "CONTROLLER_UNAVAILABLE",
      message: `the agent of node ${node} reaches no controller${why}. What is mounted stays, unmounting goes on; repeat`,
      cause: last,
    });
  };
}

/** The store of a controller may be away for this controller alone: another one has its own connection to the store. */
const isAway = ({ kind, reason }: HoldfastError): boolean =>
  (kind === "unavailable" && reason !== "STORE_UNVETTED") || kind === "deadline" || kind === "cancelled";
