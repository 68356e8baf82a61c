import { unlink } from "node:fs/promises";
import path from "node:path";
import { type Backend, type BackendOptions, createBackend } from "./backend/backend.ts";
import type { Instance, Role } from "./backend/call.ts";
import { timed } from "./call-times.ts";
import { type AsyncPort, localPort } from "./role/async-port.ts";
import { blindHost, directoryHost, type Host } from "./role/host.ts";
import { listen } from "./role/listen.ts";
import type { Mounter } from "./role/mounter.ts";
import { createMountingHost, type StageStyle } from "./role/mounting-host.ts";
import { createPerformer } from "./role/perform.ts";
import { createStreamTap, noTap } from "./role/stream-tap.ts";
import { createTokenCheck, type TokenMode } from "./role/token-check.ts";

/** What the plugin does on its host: nothing, make and remove targets, or mount for real. */
export interface HostOptions {
  /** "made-up": paths exist nowhere, nothing is looked at or made. "real" unless told. */
  readonly paths?: "real" | "made-up";
  /** Mounts for real; needs root or a user namespace. */
  readonly realMounts?: boolean;
  readonly stageStyle?: StageStyle;
  /** With realMounts: NodeUnstage removes the staging directory, as some drivers do. */
  readonly removesStaging?: boolean;
  /** Where volumes' data lives with realMounts; beside the socket unless told. */
  readonly dataDir?: string;
  /** How it mounts; by mount(8) unless told. */
  readonly mounter?: Mounter;
}

export interface RoleOptions extends HostOptions {
  readonly role: Role;
  readonly socket: string;
  /** The node id; required for the roles node and monolith. */
  readonly node?: string;
  /** This process's name in the record; made of role, node and socket unless told. */
  readonly instance?: string;
  /** Refuses NodePublishVolume without a good identity token. */
  readonly verifyTokens?: TokenMode;
  /** A file to which the time of each call is appended. The server then has nothing around the calls: no connection can be cut. */
  readonly callTimes?: string;
}

export interface SimPluginOptions extends RoleOptions, Omit<BackendOptions, "restored" | "onChange"> {
  /** A backend that several plugins share. The settings of the storage are then its own, and are not looked at here. */
  readonly backend?: Backend;
}

export interface SimPlugin {
  readonly socket: string;
  readonly backend: Backend;
  /** Dies as by SIGKILL: connections are cut, what was in flight is over. */
  kill(): void;
  /** Comes back on the same socket after kill. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

const hostFrom = (options: RoleOptions): Host => {
  if (options.realMounts)
    return createMountingHost({
      dataDir: options.dataDir ?? path.join(path.dirname(options.socket), "sim-data"),
      ...(options.stageStyle === undefined ? {} : { stageStyle: options.stageStyle }),
      ...(options.removesStaging === undefined ? {} : { removesStaging: options.removesStaging }),
      ...(options.mounter === undefined ? {} : { mounter: options.mounter }),
    });
  return options.paths === "made-up" ? blindHost : directoryHost;
};

const instanceFrom = ({ role, node, socket, instance }: RoleOptions, pid?: number): Instance => {
  if (role !== "controller" && (node === undefined || node === "")) throw new Error(`the role ${role} needs a node id`);
  return {
    name: instance ?? `${role}${node === undefined ? "" : ` ${node}`} at ${socket}`,
    role,
    ...(node === undefined || role === "controller" ? {} : { node }),
    ...(pid === undefined ? {} : { pid }),
  };
};

interface ServedRole {
  /** Connections die as with their process, then the server stops. */
  cutOff(): void;
}

/** Serves one role on its socket, over a backend that may be here or elsewhere. */
export const serveRole = async (
  options: RoleOptions,
  backend: AsyncPort,
  die: () => void,
  pid?: number,
): Promise<ServedRole> => {
  const instance = instanceFrom(options, pid);
  const { callTimes } = options;
  // What is around the calls would be taken for the caller's own time.
  const tap = callTimes === undefined ? createStreamTap(Date.now) : noTap;
  await backend.attach(instance);
  const tokens = options.verifyTokens === undefined ? {} : { checkToken: createTokenCheck(options.verifyTokens) };
  const perform = createPerformer({ backend, instance, host: hostFrom(options), ...tokens, cut: tap.cut, die });
  const server = await listen(
    options.socket,
    options.role,
    callTimes === undefined ? perform : timed(perform, callTimes),
    tap,
  );
  return {
    cutOff: () => {
      tap.cutAll();
      server.forceShutdown();
    },
  };
};

/** A plugin in this process, on a real socket: for tests of one component. */
export const createSimPlugin = async (options: SimPluginOptions): Promise<SimPlugin> => {
  const backend = options.backend ?? createBackend(options);
  const { name } = instanceFrom(options);
  let served: ServedRole | undefined;

  const kill = (): void => {
    served?.cutOff();
    served = undefined;
    backend.detach(name);
  };
  const start = async (): Promise<void> => {
    served = await serveRole(options, localPort(backend), kill);
  };
  await start();

  return {
    socket: options.socket,
    backend,
    kill,
    restart: start,
    close: async () => {
      kill();
      await unlink(options.socket).catch(() => undefined);
    },
  };
};
