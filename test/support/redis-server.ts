import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import { freePort } from "./free-port.ts";

/** A real redis-server of the test's own, on loopback. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Beside it, where certificates were given. */
  readonly tlsUrl: string | undefined;
  readonly dir: string;
  /** A connection with all rights, for what a test does behind the store's back. */
  readonly admin: () => Promise<Redis>;
  /** As a user with these rules; answers the URL to connect with. */
  addUser(name: string, rules: readonly string[]): Promise<string>;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL: nothing is flushed that was not. */
  kill(): Promise<void>;
  /** On the same port and files. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Files in PEM; clients have to show a certificate of the same authority. */
export interface ServerTls {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** What the controller demands of a server that keeps what it acknowledges. */
export const durable: Readonly<Record<string, string>> = {
  appendonly: "yes",
  appendfsync: "always",
  "no-appendfsync-on-rewrite": "no",
  "maxmemory-policy": "noeviction",
  save: "",
};

const connected = async (port: number, child: ChildProcess, said: () => string): Promise<Redis> => {
  const redis = new Redis(port, "127.0.0.1", { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null });
  redis.on("error", () => undefined);
  for (let attempt = 0; attempt < 400; attempt += 1) {
    const ending = child.exitCode ?? child.signalCode;
    if (ending !== null) throw new Error(`${program} ended with ${ending}: ${said()}`);
    try {
      if (redis.status !== "ready") await redis.connect();
      if ((await redis.ping()) === "PONG") return redis;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }
  throw new Error(`${program} did not answer: ${said()}`);
};

const setUser = (admin: Redis, name: string, rules: readonly string[]): Promise<unknown> =>
  admin.call("ACL", "SETUSER", name, "reset", "on", `>${name}`, ...rules);

const tlsSettings = ({ ca, cert, key }: ServerTls, port: number): Readonly<Record<string, string>> => ({
  "tls-port": String(port),
  "tls-ca-cert-file": ca,
  "tls-cert-file": cert,
  "tls-key-file": key,
});

export interface RedisProcess {
  /** Connected to it, with all rights; again, if it was disconnected, as a sentinel does with all clients of a server whose role it changes. */
  admin(): Promise<Redis>;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL, also of one that is stopped. */
  kill(): Promise<void>;
}

/** Another one that is to be tested, such as a valkey-server. */
const program = process.env["HOLDFAST_REDIS_SERVER"] ?? "redis-server";

/** A server or a sentinel; a test run that ends early leaves none behind. */
export const launchRedis = async (args: readonly string[], port: number): Promise<RedisProcess> => {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const take = (chunk: Buffer): void => {
    output = `${output}${chunk.toString("utf8")}`.slice(-4000);
  };
  child.stdout.on("data", take);
  child.stderr.on("data", take);
  child.once("error", (error) => take(Buffer.from(error.message)));
  const killNow = (): void => void child.kill("SIGKILL");
  process.once("exit", killNow);
  child.once("exit", () => process.off("exit", killNow));
  const connect = (): Promise<Redis> => connected(port, child, () => output);
  let admin = await connect();
  return {
    async admin() {
      if (admin.status === "end") admin = await connect();
      return admin;
    },
    signal: (signal) => void child.kill(signal),
    async kill() {
      admin.disconnect();
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGCONT");
      child.kill("SIGKILL");
      await ended;
    },
  };
};

export const startRedisServer = async (
  config: Readonly<Record<string, string>> = {},
  tls?: ServerTls,
): Promise<RedisServer> => {
  const temporary = await mkdtemp(path.join(tmpdir(), "hf-redis-"));
  /** Its files; a test that gives its own directory also removes it. */
  const dir = config["dir"] ?? temporary;
  const port = await freePort();
  const tlsPort = tls === undefined ? undefined : await freePort();
  const users: (readonly [string, readonly string[]])[] = [];
  let running: RedisProcess;

  const start = async (): Promise<void> => {
    const settings = {
      ...durable,
      dir,
      ...config,
      ...(tls === undefined || tlsPort === undefined ? {} : tlsSettings(tls, tlsPort)),
      port: String(port),
      bind: "127.0.0.1",
      "enable-debug-command": "yes",
    };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
    running = await launchRedis(args, port);
    for (const [name, rules] of users) await setUser(await running.admin(), name, rules);
  };
  const kill = (): Promise<void> => running.kill();
  await start();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    tlsUrl: tlsPort === undefined ? undefined : `rediss://127.0.0.1:${tlsPort}`,
    dir,
    async admin() {
      const admin = await running.admin();
      // A replica of a cluster answers what is asked of its own data to nobody else.
      if (config["cluster-enabled"] === "yes") await admin.readonly();
      return admin;
    },
    addUser: async (name, rules) => {
      users.push([name, rules]);
      await setUser(await running.admin(), name, rules);
      return `redis://${name}:${name}@127.0.0.1:${port}`;
    },
    signal: (signal) => running.signal(signal),
    kill,
    restart: start,
    stop: async () => {
      await kill();
      await rm(temporary, { recursive: true, force: true });
    },
  };
};
