/**
 * What every connection of ioredis here begins with, and how it gets its socket: each time anew, so that files and addresses that changed
 * meanwhile are seen.
 */
import { connect as connectPlain, Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { AbstractConnector } from "ioredis";
import type { RedisAccess } from "./redis-access.ts";
import type { Place } from "./redis-address.ts";
import { meaningOfTls, tlsOptions } from "./redis-tls.ts";

export interface DialOptions {
  readonly tls: boolean;
  readonly access: RedisAccess;
  /** Where the server is now. */
  readonly locate: () => Promise<Place>;
}

type Stream = Socket | TLSSocket;

const disconnectTimeoutMs = 100;

const dial = async ({ tls, access, locate }: DialOptions, wanted: () => boolean): Promise<Stream> => {
  const place = await locate();
  const secure = tls ? await tlsOptions(access, place.host) : undefined;
  if (!wanted()) throw new Error("the connection was given up");
  return secure === undefined ? connectPlain({ ...place }) : connectTls({ ...place, ...secure });
};

/**
 * To ioredis a connector that rejects is the end of the connection, one whose socket is destroyed a reason to try again: a sentinel that
 * is away, or a file that is just being replaced, is the second.
 */
const connectorOf = (options: DialOptions) =>
  class extends AbstractConnector {
    constructor() {
      super(disconnectTimeoutMs);
    }

    override async connect(): Promise<Stream> {
      this.connecting = true;
      try {
        this.stream = await dial(options, () => this.connecting);
        this.stream.once("error", (error) => {
          this.firstError = error;
        });
      } catch (error) {
        this.firstError = error instanceof Error ? error : new Error(String(error));
        this.stream = new Socket().destroy();
      }
      return this.stream;
    }
  };

/** C1: nothing waits in the client, and nothing is sent again by it. */
export const clientBasics = (options: DialOptions, timeoutMs: number) => ({
  Connector: connectorOf(options),
  // Tells ioredis which event of the socket to wait for; the connector knows the rest.
  ...(options.tls ? { tls: {} } : {}),
  // The restricted user may say who it is and nothing more; RESP3 and CLIENT SETINFO are not needed.
  protocol: 2 as const,
  disableClientInfo: true,
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  connectTimeout: timeoutMs,
  commandTimeout: timeoutMs,
});

/** In words, with the cure where TLS is the cause. */
export const troubleOf = ({ tls }: Pick<DialOptions, "tls">, error: Error): string =>
  (tls ? meaningOfTls(error) : undefined) ?? error.message;
