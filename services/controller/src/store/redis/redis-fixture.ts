/** What the tests of the Redis store share: servers, users, stores over them, all gone at the end. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger, type MemoryLogger } from "@holdfast/shared/log/logger";
import { type RedisServer, type ServerTls, startRedisServer } from "../../../../../test/support/redis-server.ts";
import type { Store } from "../../ports.ts";
import { type OpenStoreOptions, openStore } from "../open-store.ts";
import type { StoreHarness } from "../store-contract.ts";
import { vetAnew } from "../vet-anew.ts";
import { controllerRules, migratorRules } from "./acl.ts";
import { createRedisKeys } from "./redis-keys.ts";

/** One server, or those of which one is the master. */
interface Servers {
  addUser(name: string, rules: readonly string[]): Promise<string>;
  stop(): Promise<void>;
}

export interface StoreFixture {
  readonly stateDir: string;
  readonly log: MemoryLogger;
  /** The address of the restricted user of a cell. */
  restricted(cell: string): Promise<string>;
  migrator(cell: string): Promise<string>;
  /** As the restricted user, with a migrator; closed at the end. */
  open(opening?: Partial<OpenStoreOptions>): Promise<Store>;
  /** The servers, too. */
  stop(): Promise<void>;
}

export const createStoreFixture = (servers: Servers): StoreFixture => {
  const stateDir = mkdtempSync(path.join(tmpdir(), "hf-state-"));
  const log = createMemoryLogger();
  const ending = new AbortController();
  const opened: Store[] = [];
  const users = new Map<string, Promise<string>>();

  const user = (name: string, rules: readonly string[]): Promise<string> => {
    const known = users.get(name) ?? servers.addUser(name, rules);
    users.set(name, known);
    return known;
  };
  const restricted = (cell: string): Promise<string> => user(`controller-${cell}`, controllerRules(cell));
  const migrator = (cell: string): Promise<string> => user(`migrator-${cell}`, migratorRules(cell));

  return {
    stateDir,
    log,
    restricted,
    migrator,
    async open(more = {}) {
      const cell = more.cell ?? "test";
      const store = await openStore({
        url: await restricted(cell),
        migrateUrl: await migrator(cell),
        cell,
        stateDir: path.join(stateDir, cell),
        allowVolatile: false,
        declaredDurable: false,
        log,
        clock: systemClock,
        ids: { uuid: randomUUID, random: Math.random },
        signal: ending.signal,
        ...more,
      });
      opened.push(store);
      return store;
    },
    async stop() {
      ending.abort(new DOMException("the test is over", "AbortError"));
      await Promise.all(opened.map((store) => store.close()));
      await servers.stop();
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
};

export type Opening = Partial<OpenStoreOptions> & { readonly port?: number };

export interface RedisFixture extends StoreFixture {
  readonly server: RedisServer;
  /** `port` leads over a proxy. */
  restricted(cell: string, port?: number): Promise<string>;
  open(opening?: Opening): Promise<Store>;
}

export const startRedisFixture = async (
  config: Readonly<Record<string, string>> = {},
  tls?: ServerTls,
): Promise<RedisFixture> => {
  const server = await startRedisServer(config, tls);
  const stores = createStoreFixture(server);
  const restricted = async (cell: string, port = server.port): Promise<string> => {
    const url = new URL(await stores.restricted(cell));
    url.port = String(port);
    return url.href;
  };
  return {
    ...stores,
    server,
    restricted,
    open: async ({ port, ...more } = {}) =>
      await stores.open({ url: await restricted(more.cell ?? "test", port), ...more }),
  };
};

/** What the contract of a store is tried on. */
export const contractOver = async (stores: StoreFixture, server: RedisServer): Promise<StoreHarness> => {
  const tuning = { maxEvents: 200 };
  let current = await stores.open({ tuning });
  const other = await stores.open({ tuning });
  return {
    // One object over the reopening.
    store: new Proxy({} as Store, { get: (_, name) => Reflect.get(current, name) }),
    other,
    maxEvents: 200,
    async unvet() {
      await (await server.admin()).hset(createRedisKeys("test").meta, "vettedRunId", "of-an-earlier-process");
    },
    pass: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    async reopen() {
      await current.close();
      current = await stores.open({ tuning });
    },
    stop: () => stores.stop(),
  };
};

/** So that grants are taken. */
export const vet = async (store: Store): Promise<void> => {
  await vetAnew(store);
};
