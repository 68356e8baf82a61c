import type { RedisServer } from "./redis-server.ts";

/** A master with replicas of which one becomes the master when it is gone; all on loopback. */
export interface RedisServers {
  /** For a controller. */
  readonly url: string;
  readonly master: RedisServer;
  readonly replicas: readonly RedisServer[];
  /** Until all replicas have what the master has. */
  replicated(): Promise<void>;
  /** The server that says of itself that it is the master, once those that choose it say so too. */
  settled(except?: RedisServer): Promise<RedisServer>;
  /** One that runs becomes a replica of the other, sooner than those that choose would have it so; in a cluster, once it knows that it is no master any more. */
  follow(server: RedisServer, next: RedisServer): Promise<void>;
  /** A replica receives nothing from now on, and may be chosen all the same. A stopped one would read on from its socket. */
  fallBehind(replica: RedisServer): Promise<void>;
  /** On, the server is cut from the other servers and from those that choose a master, and not from its clients. Absent: it cannot be done. */
  readonly cutOff?: (server: RedisServer, on: boolean) => Promise<void>;
  stop(): Promise<void>;
}
