import { connect, createServer, type Socket } from "node:net";

/** Stands between a client and a server on loopback, and loses what a test tells it to lose. */
export interface TcpProxy {
  readonly url: string;
  readonly port: number;
  /** The next answer is swallowed and its connection cut, once the server has sent it. */
  dropNextReply(): void;
  dropped(): number;
  /** Nothing passes any more, and nobody is told. */
  blackHole(on: boolean): void;
  close(): Promise<void>;
}

export const startTcpProxy = async (target: { readonly port: number; readonly host?: string }): Promise<TcpProxy> => {
  const pairs = new Set<readonly [Socket, Socket]>();
  let armed = false;
  let count = 0;
  let hole = false;
  const server = createServer((client) => {
    const upstream = connect(target.port, target.host ?? "127.0.0.1");
    const pair = [client, upstream] as const;
    pairs.add(pair);
    // Only a request that came after the order can have its answer dropped.
    let asked = false;
    const end = (): void => {
      pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    client.on("data", (chunk) => {
      if (hole) return;
      if (armed && chunk.includes("fcall")) asked = true;
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      if (hole) return;
      if (armed && asked) {
        armed = false;
        count += 1;
        end();
        return;
      }
      client.write(chunk);
    });
    for (const socket of pair) {
      socket.on("error", end);
      socket.on("close", end);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    dropNextReply: () => {
      armed = true;
    },
    dropped: () => count,
    blackHole: (on) => {
      hole = on;
    },
    close: () =>
      new Promise((resolve) => {
        for (const pair of pairs) for (const socket of pair) socket.destroy();
        server.close(() => resolve());
      }),
  };
};
