import { unlink } from "node:fs/promises";
import path from "node:path";
import { encode } from "./backend/json.ts";
import type { BackendSettings } from "./backend/settings.ts";
import { type BackendClient, connectBackend } from "./backend-client.ts";
import { type RunningChild, startChild } from "./child-process.ts";
import type { RoleOptions } from "./sim-plugin.ts";

export interface SimBackendOptions extends BackendSettings {
  /** Holds its socket and, with keepState, its state file. */
  readonly dir: string;
  /** Keeps the state over the backend's own death. */
  readonly keepState?: boolean;
}

export interface SimBackendProcess extends RunningChild {
  readonly socketPath: string;
  /** A connection of the test's own, closed by stop. */
  readonly client: BackendClient;
}

export const startSimBackend = async ({
  dir,
  keepState,
  ...settings
}: SimBackendOptions): Promise<SimBackendProcess> => {
  const socketPath = path.join(dir, "backend.sock");
  const child = await startChild(new URL("./backend-main.ts", import.meta.url), [
    "--socket",
    socketPath,
    "--settings",
    encode(settings),
    ...(keepState ? ["--state", path.join(dir, "backend-state.json")] : []),
  ]);
  const client = await connectBackend(socketPath);
  const stop = async (): Promise<void> => {
    client.disconnect();
    await child.stop();
  };
  return { ...child, socketPath, client, stop };
};

export interface SimPluginProcessOptions extends Omit<RoleOptions, "socket"> {
  /** Its socket is `csi.sock` in here, unless `socket` says otherwise; the directory must exist. */
  readonly dir: string;
  readonly socket?: string;
  /** The backend's socket. */
  readonly backend: string;
  readonly env?: NodeJS.ProcessEnv;
}

export interface SimPluginProcess extends RunningChild {
  readonly socketPath: string;
}

export const startSimPlugin = async (options: SimPluginProcessOptions): Promise<SimPluginProcess> => {
  const socketPath = options.socket ?? path.join(options.dir, "csi.sock");
  const optional = (name: string, value: string | undefined): string[] =>
    value === undefined ? [] : [`--${name}`, value];
  const args = [
    ...["--role", options.role, "--socket", socketPath, "--backend", options.backend],
    ...optional("node", options.node),
    ...optional("instance", options.instance),
    ...optional("paths", options.paths),
    ...(options.realMounts ? ["--real-mounts"] : []),
    ...(options.removesStaging ? ["--removes-staging"] : []),
    ...optional("stage-style", options.stageStyle),
    ...optional("data-dir", options.dataDir),
    ...optional("verify-tokens", options.verifyTokens?.jwks),
    ...optional("token-issuer", options.verifyTokens?.issuer),
    ...optional("token-audience", options.verifyTokens?.audience),
    ...(options.verifyTokens?.old ? ["--old-tokens"] : []),
  ];
  const child = await startChild(new URL("./plugin-main.ts", import.meta.url), args, options.env);
  const stop = async (): Promise<void> => {
    await child.stop();
    await unlink(socketPath).catch(() => undefined);
  };
  return { ...child, socketPath, stop };
};
