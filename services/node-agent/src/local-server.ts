/**
 * The socket for programs on this host: 0660, and of the group that the operator names. Who may open it is the local
 * workload manager, whatever it calls itself; it can prepare workloads and host plugins, and give no orders of a controller.
 */
import { chown, mkdir, readFile } from "node:fs/promises";
import path from "node:path";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { parseAddress } from "@holdfast/shared/grpc/listen-address";
import { createGrpcServer, type GrpcServer } from "@holdfast/shared/grpc/server";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import { agentAccess } from "./api/rules.ts";

export interface LocalServerOptions {
  readonly log: Logger;
  readonly metrics?: Metrics;
  /** Name or number of the group; the agent's own when absent. */
  readonly group: string | undefined;
}

export interface LocalServer extends Pick<GrpcServer, "add" | "setServing" | "stop"> {
  listen(address: string): Promise<string>;
}

/** Preparing a workload may take 10 minutes; a caller that names no deadline of its own waits for it. */
const defaultDeadlineMs = 660_000;

export function createLocalServer({ log, metrics, group }: LocalServerOptions): LocalServer {
  const server = createGrpcServer({
    log,
    ...(metrics === undefined ? {} : { metrics }),
    identity: () => ({ role: "local", name: "" }),
    access: agentAccess("certificates"),
    socketMode: 0o660,
    defaultDeadlineMs,
  });
  return {
    ...server,
    async listen(address) {
      const parsed = parseAddress(address);
      if (parsed.kind !== "unix") throw noSocket(address);
      // Before anything is bound: a group that does not exist must not leave a socket behind.
      const gid = group === undefined ? undefined : await groupId(group);
      await mkdir(path.dirname(parsed.path), { recursive: true, mode: 0o755 });
      const bound = await server.listen(address);
      if (gid !== undefined) await chown(parsed.path, -1, gid);
      return bound;
    },
  };
}

async function groupId(group: string): Promise<number> {
  if (/^\d{1,10}$/.test(group)) return Number(group);
  const lines = (await readFile("/etc/group", "utf8").catch(() => "")).split("\n");
  const line = lines.find((one) => one.split(":")[0] === group);
  const id = Number(line?.split(":")[2]);
  if (line !== undefined && Number.isSafeInteger(id)) return id;
  throw new HoldfastError({
    kind: "precondition",
    reason: "CONFIG_INVALID",
    message: `HOLDFAST_LOCAL_GROUP: there is no group ${group} in /etc/group; make it, or give its number`,
  });
}

const noSocket = (address: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CONFIG_INVALID",
    message: `HOLDFAST_LOCAL_LISTEN: ${address} is no unix socket; use unix:///absolute/path`,
  });
