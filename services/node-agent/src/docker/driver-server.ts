/**
 * The socket on which dockerd finds the volume driver: HTTP POST with JSON, protocol v1. Who may open the socket may mount and delete the
 * volumes of its namespace.
 *
 * DS1 A refusal is an answer with `Err` and status 500, as of Docker's own library for plugins. Podman reads no `Err` beside status 200: it
 *     would take a mount that was refused for one at no path, and its container would write to a directory of podman's.
 * DS2 Bodies, connections and the time to send a request are bounded.
 * DS3 A mount whose answer did not get through is taken back.
 */
import { chmod, mkdir } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import path from "node:path";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { clearStaleSocket } from "@holdfast/shared/grpc/unix-socket";
import type { Logger } from "@holdfast/shared/log/logger";
import { durationBuckets, type Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import { isOptions } from "./docker-templates.ts";
import type { Mounted, ShownVolume, VolumeDriver } from "./volume-driver.ts";

export interface DriverServerOptions {
  readonly driver: VolumeDriver;
  readonly namespace: string;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly now: () => number;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

export interface DriverServer {
  listen(socket: string): Promise<void>;
  stop(): Promise<void>;
}

interface Asked {
  readonly name: string;
  readonly id: string;
  readonly options: Readonly<Record<string, string>>;
}
interface Answer {
  readonly body: object;
  readonly mounted?: Mounted;
}
type Method = (driver: VolumeDriver, asked: Asked, signal: AbortSignal) => Promise<Answer>;

const contentType = "application/vnd.docker.plugins.v1.2+json";
/** DS2 */
const bounds = { bodyBytes: 64 * 1024, headerBytes: 16 * 1024, connections: 128, requestMs: 10_000 };

const shown = ({ volume, mountpoint }: ShownVolume): object => ({
  Name: volume.id,
  ...(mountpoint === "" ? {} : { Mountpoint: mountpoint }),
  ...(volume.createdAt === 0 ? {} : { CreatedAt: new Date(volume.createdAt).toISOString() }),
  Status: {
    plugin: volume.plugin,
    // The memory may be older than the mount.
    state: mountpoint === "" ? volume.state : "AVAILABLE",
    trouble: volume.trouble,
  },
});
const nothing: Answer = { body: {} };

const methods: Readonly<Record<string, Method>> = {
  "/Plugin.Activate": async () => ({ body: { Implements: ["VolumeDriver"] } }),
  "/VolumeDriver.Capabilities": async () => ({ body: { Capabilities: { Scope: "global" } } }),
  "/VolumeDriver.Create": async (driver, { name, options }, signal) => {
    await driver.create(name, options, signal);
    return nothing;
  },
  "/VolumeDriver.Remove": async (driver, { name }, signal) => {
    await driver.remove(name, signal);
    return nothing;
  },
  "/VolumeDriver.Mount": async (driver, { name, id }, signal) => {
    const mounted = await driver.mount(name, id, signal);
    return { body: { Mountpoint: mounted.mountpoint }, mounted };
  },
  "/VolumeDriver.Unmount": async (driver, { name, id }, signal) => {
    await driver.unmount(name, id, signal);
    return nothing;
  },
  "/VolumeDriver.Path": async (driver, { name }) => ({ body: { Mountpoint: await driver.path(name) } }),
  "/VolumeDriver.Get": async (driver, { name }, signal) => ({
    body: { Volume: shown(await driver.get(name, signal)) },
  }),
  "/VolumeDriver.List": async (driver, _, signal) => ({
    body: { Volumes: (await driver.list(signal)).map(shown) },
  }),
};
/** dockerd asks these of every plugin about every name. */
const quiet: ReadonlySet<string> = new Set(["Plugin.Activate", "Capabilities", "Get", "Path", "List"]);
const named: ReadonlySet<string> = new Set(["Create", "Remove", "Mount", "Unmount", "Path", "Get"]);

export function createDriverServer(options: DriverServerOptions): DriverServer {
  const { driver, namespace, log, metrics, tracing, now, signal: life } = options;
  const seconds = metrics.histogram({
    name: "holdfast_docker_call_seconds",
    help: "Calls of dockerd to the volume plugin.",
    labels: ["method", "outcome"],
    buckets: durationBuckets,
  });

  const answered = async (method: string, run: Method, request: IncomingMessage, signal: AbortSignal) => {
    const from = now();
    const asked = await readAsked(method, request);
    const fields = { method, volume: asked.name, ...(asked.id === "" ? {} : { id: asked.id }) };
    const ended = (outcome: string): Readonly<Record<string, unknown>> => {
      seconds.observe({ method, outcome }, (now() - from) / 1000);
      return { ...fields, ms: Math.round(now() - from) };
    };
    const attributes = asked.name === "" ? {} : { "holdfast.volume": `${namespace}/${asked.name}` };
    try {
      const answer = await tracing.span(`docker VolumeDriver.${method}`, { kind: "server", attributes }, () =>
        run(driver, asked, signal),
      );
      log[quiet.has(method) ? "debug" : "info"]("dockerd was answered", ended("OK"));
      return answer;
    } catch (error) {
      const reason = isHoldfastError(error) ? error.reason : signal.aborted ? "CANCELLED" : "INTERNAL";
      const level = quiet.has(method) ? "debug" : reason === "INTERNAL" ? "error" : "warn";
      log[level]("dockerd was refused", { ...ended(reason), reason, error });
      throw error;
    }
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const at = (request.url ?? "").split("?")[0] ?? "";
    const run = Object.hasOwn(methods, at) ? methods[at] : undefined;
    if (run === undefined) return send(response, 404, { Err: `${at.slice(0, 64)} is no call of a volume driver` });
    if (request.method !== "POST") return send(response, 405, { Err: "POST only" });
    const gone = new AbortController();
    response.once("close", () => {
      if (!response.writableFinished) gone.abort(new DOMException("dockerd is gone", "AbortError"));
    });
    try {
      const method = at.replace(/^\/(VolumeDriver\.)?/, "");
      const { body, mounted } = await answered(method, run, request, AbortSignal.any([gone.signal, life]));
      if (mounted !== undefined) takeBackUnheard(response, mounted);
      send(response, 200, { ...body, Err: "" });
    } catch (error) {
      if (error instanceof BadCall) send(response, error.status, { Err: error.message });
      else send(response, 500, { Err: wordsOf(error) }); // DS1
    }
  };

  /** DS3 */
  const takeBackUnheard = (response: ServerResponse, mounted: Mounted): void => {
    const unless = (): void => {
      if (!response.writableFinished) void mounted.unheard();
    };
    if (response.destroyed) unless();
    else response.once("close", unless);
  };

  const server = createServer({ maxHeaderSize: bounds.headerBytes }, (request, response) => {
    serve(request, response).catch((error: unknown) => {
      log.error("dockerd could not be answered", { error });
      response.destroy();
    });
  });
  server.requestTimeout = bounds.requestMs;
  server.headersTimeout = bounds.requestMs;
  server.maxConnections = bounds.connections;

  return {
    async listen(socket) {
      await mkdir(path.dirname(socket), { recursive: true, mode: 0o755 });
      await clearStaleSocket(socket);
      await new Promise<void>((resolve, reject) => {
        server.once("error", (error) => reject(notListening(socket, error.message)));
        server.listen(socket, resolve);
      });
      await chmod(socket, 0o660);
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const notListening = (socket: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "LISTEN_FAILED",
    message: `HOLDFAST_DOCKER_SOCKET: cannot listen on ${socket}: ${why}`,
    metadata: { address: socket },
  });

/** It is not what dockerd sends. */
class BadCall extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const readAsked = async (method: string, request: IncomingMessage): Promise<Asked> => {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bounds.bodyBytes) throw new BadCall(413, `the body is longer than ${bounds.bodyBytes} bytes`);
    chunks.push(chunk);
  }
  const { Name = "", ID = "", Opts } = objectFrom(Buffer.concat(chunks).toString("utf8"));
  const options = Opts ?? {};
  if (typeof Name !== "string" || typeof ID !== "string" || !isOptions(options))
    throw new BadCall(400, "Name and ID have to be texts, and Opts an object of texts");
  if (named.has(method) && Name === "") throw new BadCall(400, "Name is required");
  // Podman sends none with some calls; one that counts mounts cannot go without.
  if ((method === "Mount" || method === "Unmount") && !/^[\x21-\x7e]{1,256}$/.test(ID))
    throw new BadCall(400, "ID has to be 1 to 256 printable characters");
  return { name: Name, id: ID, options };
};

const objectFrom = (text: string): Readonly<Record<string, unknown>> => {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Told below, as every other body that is no object.
  }
  throw new BadCall(400, "the body has to be a JSON object");
};

const wordsOf = (error: unknown): string => {
  if (isHoldfastError(error)) {
    const cure = error.metadata["clear_with"] ?? "";
    return `${error.reason}: ${error.message}${cure === "" ? "" : `; ${cure}`}`;
  }
  return "INTERNAL: the agent could not do it; its log has the details";
};

const send = (response: ServerResponse, status: number, body: object): void => {
  if (response.destroyed || response.headersSent) return;
  response.writeHead(status, { "content-type": contentType, "cache-control": "no-store" }).end(JSON.stringify(body));
};
