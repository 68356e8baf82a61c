/** Where the Redis of an address is now; asked for each connection. */
import { askSentinels } from "./ask-sentinels.ts";
import type { RedisAccess } from "./redis-access.ts";
import type { Place, RedisAddress } from "./redis-address.ts";

export interface RedisLocator {
  locate(): Promise<Place>;
  /** What was located last, for whoever tells of it. */
  last(): Place | undefined;
}

export interface RedisLocatorOptions {
  readonly address: RedisAddress;
  readonly access: RedisAccess;
  readonly timeoutMs: number;
}

export const createRedisLocator = ({ address, access, timeoutMs }: RedisLocatorOptions): RedisLocator => {
  let last: Place | undefined;
  return {
    async locate() {
      last = address.kind === "server" ? address.place : await askSentinels({ address, access, timeoutMs });
      return last;
    },
    last: () => last,
  };
};
