/** An HTTP proxy that is asked to CONNECT, on loopback: what it was asked for, and all that a client sent through it. */
import { connect, createServer, type Socket } from "node:net";

export interface ConnectProxyOptions {
  /** Where a target leads. */
  readonly leadsTo: (target: string) => { readonly host?: string; readonly port: number };
  /** Only who shows this is let through, as `user:password`. */
  readonly login?: string;
}

export interface ConnectProxy {
  /** With the login, if one is wanted. */
  readonly url: string;
  readonly port: number;
  /** The targets, in order. */
  readonly asked: readonly string[];
  /** What each connection that was let through carried from the client. */
  readonly sent: readonly (readonly Buffer[])[];
  close(): Promise<void>;
}

export const startConnectProxy = async ({ leadsTo, login }: ConnectProxyOptions): Promise<ConnectProxy> => {
  const asked: string[] = [];
  const sent: Buffer[][] = [];
  const sockets = new Set<Socket>();
  const wanted = login === undefined ? "" : `basic ${Buffer.from(login).toString("base64")}`;

  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("data", (head) => {
      const text = head.toString("latin1");
      const target = /^CONNECT (\S+) HTTP\/1\.1\r\n/.exec(text)?.[1] ?? text;
      asked.push(target);
      const shown = /\r\nproxy-authorization: (basic \S+)\r\n/i.exec(text)?.[1] ?? "";
      if (wanted !== "" && shown.replace(/^basic/i, "basic") !== wanted) {
        socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
        return;
      }
      const { host = "127.0.0.1", port } = leadsTo(target);
      const on = connect(port, host);
      sockets.add(on);
      on.on("error", () => socket.destroy());
      on.on("close", () => socket.destroy());
      socket.on("close", () => on.destroy());
      const carried: Buffer[] = [];
      sent.push(carried);
      socket.on("data", (bytes: Buffer) => carried.push(bytes));
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.pipe(on).pipe(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://${login === undefined ? "" : `${login}@`}127.0.0.1:${port}`,
    port,
    asked,
    sent,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
};
