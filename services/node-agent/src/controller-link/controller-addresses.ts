/**
 * Where the controllers are: the addresses behind the names that the operator gave. A name may have several addresses, and they may
 * change; each is one controller.
 *
 * Addresses-1 A lookup that fails changes nothing: the addresses of the last answer stay.
 * Addresses-2 Two lookups run at once at most: each holds a thread that the journal's writes need too.
 */
import { isIP } from "node:net";
import type { Clock } from "@holdfast/shared/async/clock";
import { createLimiter } from "@holdfast/shared/async/limiter";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals, waitFor } from "@holdfast/shared/async/signals";
import { bareHost, formatAddress, parseAddress } from "@holdfast/shared/grpc/listen-address";
import type { Logger } from "@holdfast/shared/log/logger";
import { createOutage } from "./outage.ts";

export interface ControllerAddress {
  /** What is dialled: an IP address and a port, or a unix socket; through a proxy, what the proxy is asked for. */
  readonly target: string;
  /** For messages: what the operator wrote, and the address if it was looked up. */
  readonly name: string;
}

/** IP addresses of a host name. */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

export interface ControllerAddressesOptions {
  readonly controllers: readonly string[];
  /** Undefined: names are dialled as they stand, since a proxy looks them up. */
  readonly resolve: ResolveHost | undefined;
  /** Called with all that are known, whenever that may have changed. */
  readonly onAddresses: (addresses: readonly ControllerAddress[]) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface ControllerAddresses {
  /** A controller is away: its name may lead elsewhere by now. */
  lookAgain(): void;
  /** Resolves when the signal is aborted. */
  run(): Promise<void>;
}

const lookMs = 30_000;
/** However many controllers are away. */
const leastLookMs = 1_000;
const maxAddresses = 64;

export function createControllerAddresses(options: ControllerAddressesOptions): ControllerAddresses {
  const { controllers, resolve, onAddresses, clock, signal } = options;
  const known = new Map<string, readonly ControllerAddress[]>();
  const limiter = createLimiter({ name: "controller lookups", limit: 2, maxQueued: Number.POSITIVE_INFINITY });
  const asked = createNotifier();

  const tell = (): void => {
    const all = new Map([...known.values()].flat().map((address) => [address.target, address]));
    onAddresses([...all.values()]);
  };

  const follow = async (item: string, host: string, port: number, ask: ResolveHost): Promise<void> => {
    const log = options.log.child({ name: host });
    const outage = createOutage(log);
    const crowd = createOutage(log);
    for (;;) {
      const version = asked.version();
      try {
        const answer = await waitFor(
          limiter.run(signal, () => ask(host)),
          signal,
        );
        const found = [...new Set(answer)].sort();
        if (found.length === 0) throw new Error("the name has no address");
        if (found.length > maxAddresses)
          crowd.tell(
            `the name of the controllers has ${found.length} addresses, and the first ${maxAddresses} are dialled`,
            item,
          );
        known.set(
          item,
          found.slice(0, maxAddresses).map((ip) => {
            const target = formatAddress({ kind: "tcp", host: isIP(ip) === 6 ? `[${ip}]` : ip, port });
            return { target, name: `${item} (${target})` };
          }),
        );
        outage.over();
        tell();
      } catch (error) {
        signal.throwIfAborted();
        outage.tell("the name of a controller does not resolve; it is tried again", error); // Addresses-1
      }
      await clock.sleep(leastLookMs, signal);
      const until = linkSignals(signal);
      const cancel = clock.timer(lookMs - leastLookMs, () => until.abort(undefined));
      await asked.wait(version, until.signal).catch(() => undefined);
      cancel();
      until.dispose();
      signal.throwIfAborted();
    }
  };

  return {
    lookAgain: asked.notify,
    async run() {
      const names: Promise<void>[] = [];
      for (const item of controllers) {
        const address = parseAddress(item);
        if (address.kind === "unix" || resolve === undefined || isIP(bareHost(address.host)) !== 0)
          known.set(item, [{ target: formatAddress(address), name: item }]);
        else names.push(follow(item, address.host, address.port, resolve));
      }
      tell();
      await Promise.allSettled(names);
    },
  };
}
