/**
 * The socket on which dockerd finds the volume driver: HTTP POST with JSON, protocol v1. Who may open the socket may mount and delete the
 * volumes of its namespace.
 *
 * DS1 A refusal is an answer with `Err` and status 500, as of Docker's own library for plugins. Podman reads no `Err` beside status 200: it
 *     would take a mount that was refused for one at no path, and its container would write to a directory of podman's.
 * DS2 A mount whose answer did not get through is taken back (PS2).
 */
import type { Logger } from "@holdfast/shared/log/logger";
import { durationBuckets, type Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import { BadCall, createPostServer, type PostServer, type Reply, refusalWords } from "../host-volumes/post-server.ts";
import { createToldCalls } from "../host-volumes/told-calls.ts";
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

export function createDriverServer(options: DriverServerOptions): PostServer {
  const { driver, namespace, log, metrics, tracing, now, signal } = options;
  const told = createToldCalls({
    program: "dockerd",
    seconds: metrics.histogram({
      name: "holdfast_docker_call_seconds",
      help: "Calls of dockerd to the volume plugin.",
      labels: ["method", "outcome"],
      buckets: durationBuckets,
    }),
    span: "docker VolumeDriver.",
    ...{ quiet, log, tracing, now },
  });

  return createPostServer({
    ...{ setting: "HOLDFAST_DOCKER_SOCKET", program: "dockerd", contentType, log, signal },
    serves: (at) => Object.hasOwn(methods, at),
    async answer(at, body, caller) {
      const run = methods[at];
      if (run === undefined) throw new Error(`${at} is not served`);
      const method = at.replace(/^\/(VolumeDriver\.)?/, "");
      const asked = askedBy(method, body);
      const fields = asked.id === "" ? {} : { id: asked.id };
      const call = { method, volume: asked.name, namespace, fields };
      const answer = await told(call, caller, () => run(driver, asked, caller));
      const { mounted } = answer;
      const reply = { status: 200, body: { ...answer.body, Err: "" } };
      return mounted === undefined ? reply : { ...reply, unheard: () => void mounted.unheard() }; // DS2
    },
    refusal: (error): Reply =>
      error instanceof BadCall
        ? { status: error.status, body: { Err: error.message } }
        : { status: 500, body: { Err: refusalWords(error) } }, // DS1
  });
}

const askedBy = (method: string, body: string): Asked => {
  const { Name = "", ID = "", Opts } = objectFrom(body);
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
