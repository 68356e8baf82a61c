/** Where the Redis of an address is now; asked for each connection. */
import { askCluster } from "./ask-cluster.ts";
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
  /** In which a cluster has the keys of the store. */
  readonly slot: number;
  readonly timeoutMs: number;
}

const placeOf = async ({ address, ...how }: RedisLocatorOptions): Promise<Place> => {
  switch (address.kind) {
    case "server":
      return address.place;
    case "sentinel":
      return await askSentinels({ address, ...how });
    case "cluster":
      return await askCluster({ address, ...how });
  }
};

export const createRedisLocator = (options: RedisLocatorOptions): RedisLocator => {
  let last: Place | undefined;
  return {
    async locate() {
      last = await placeOf(options);
      return last;
    },
    last: () => last,
  };
};
