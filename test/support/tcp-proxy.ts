import { connect, createServer, type Socket } from "node:net";

/** What becomes of the next request that is looked for, and of its answer. */
export type Fault =
  /** The server gets it and answers; the answer is swallowed and the connection cut. */
  | "drop-reply"
  /** The server gets it and the connection is cut at once, on both sides. */
  | "cut-after-request"
  /** The connection is cut before the server gets anything of it. */
  | "cut-before-request"
  /** The server gets it after the client has been cut off: late, when nobody waits for it any more. */
  | "deliver-late";

/** Stands between a client and a server on loopback, and loses what a test tells it to lose. */
export interface TcpProxy {
  readonly port: number;
  /** Does it once, with the next request that is looked for. */
  inject(fault: Fault): void;
  /** How many of them were done. */
  injected(): number;
  /** Nothing passes any more in either direction, and nobody is told, not even the server when a client ends. */
  blackHole(on: boolean): void;
  /** On, the answers are kept back, in order, on each connection that has sent what is looked for; off, they pass. */
  holdAnswers(on: boolean): void;
  /** Each chunk waits so long, in both directions. */
  delay(ms: number): void;
  /** Cuts all connections; new ones are welcome. */
  cut(): void;
  connections(): number;
  close(): Promise<void>;
}

export interface TcpProxyOptions {
  readonly port: number;
  readonly host?: string;
  /** Tells the requests that faults are for. */
  readonly looksFor?: (chunk: Buffer) => boolean;
  /** What the client gets in place of a chunk of the server's. */
  readonly translate?: (chunk: Buffer) => Buffer;
  readonly lateMs?: number;
}

export const startTcpProxy = async (options: TcpProxyOptions): Promise<TcpProxy> => {
  const { port: target, host = "127.0.0.1", looksFor = () => true, translate, lateMs = 30 } = options;
  const ends = new Set<() => void>();
  const timers = new Set<NodeJS.Timeout>();
  let armed: Fault | undefined;
  let count = 0;
  let hole = false;
  let holding = false;
  const releases = new Set<() => void>();
  let delayMs = 0;

  const later = (ms: number, act: () => void): void => {
    if (ms === 0) {
      act();
      return;
    }
    const timer = setTimeout(() => {
      timers.delete(timer);
      act();
    }, ms);
    timers.add(timer);
  };

  const server = createServer((client) => {
    const upstream = connect(target, host);
    client.setNoDelay(true);
    upstream.setNoDelay(true);
    let swallow = false;
    let found = false;
    const held: Buffer[] = [];
    const release = (): void => {
      for (const chunk of held.splice(0)) pass(client, chunk);
    };
    releases.add(release);
    const end = (): void => {
      ends.delete(end);
      releases.delete(release);
      client.destroy();
      upstream.destroy();
    };
    ends.add(end);
    const pass = (to: Socket, chunk: Buffer): void =>
      later(delayMs, () => {
        if (!to.destroyed && !hole) to.write(chunk);
      });
    const faults: Readonly<Record<Fault, (chunk: Buffer) => void>> = {
      "drop-reply": (chunk) => {
        swallow = true;
        upstream.write(chunk);
      },
      "cut-after-request": (chunk) => {
        swallow = true;
        upstream.write(chunk, () => end());
      },
      "cut-before-request": () => end(),
      "deliver-late": (chunk) => {
        swallow = true;
        // The connection to the server outlives the client, and is closed when it has answered.
        client.destroy();
        later(lateMs, () => upstream.write(chunk));
      },
    };
    client.on("data", (chunk: Buffer) => {
      if (hole) return;
      found ||= looksFor(chunk);
      if (armed === undefined || !looksFor(chunk)) return pass(upstream, chunk);
      const fault = armed;
      armed = undefined;
      count += 1;
      faults[fault](chunk);
    });
    upstream.on("data", (answer: Buffer) => {
      if (hole) return;
      const chunk = translate === undefined ? answer : translate(answer);
      if (swallow) end();
      else if (found && holding) held.push(chunk);
      else pass(client, chunk);
    });
    client.on("error", () => undefined);
    client.on("close", () => {
      if (!swallow && !hole) end();
    });
    upstream.on("error", end);
    upstream.on("close", end);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const cut = (): void => {
    for (const end of [...ends]) end();
  };
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    inject: (fault) => {
      armed = fault;
    },
    injected: () => count,
    blackHole: (on) => {
      hole = on;
    },
    holdAnswers: (on) => {
      holding = on;
      if (!on) for (const release of [...releases]) release();
    },
    delay: (ms) => {
      delayMs = ms;
    },
    cut,
    connections: () => ends.size,
    close: () =>
      new Promise((resolve) => {
        for (const timer of timers) clearTimeout(timer);
        cut();
        server.close(() => resolve());
      }),
  };
};
