import path from "node:path";
import { parseArgs } from "node:util";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { runUntilSignal } from "@holdfast/shared/lifecycle";
import { createLogger } from "@holdfast/shared/log/logger";
import type { Role } from "./backend/call.ts";
import { connectBackend } from "./backend-client.ts";
import type { StageStyle } from "./role/mounting-host.ts";
import { type RoleOptions, serveRole } from "./sim-plugin.ts";

/**
 * One role of the plugin as a process of its own:
 * node plugin-main.ts --role controller|node|monolith --socket PATH --backend PATH [--node ID] [--instance NAME]
 *   [--paths made-up] [--real-mounts] [--stage-style mount|subdir|none] [--removes-staging]
 *   [--data-dir PATH] [--verify-tokens JWKS-URL --token-issuer URL --token-audience AUDIENCE [--old-tokens]]
 * HOLDFAST_SIM_CALL_TIMES=DIR appends the time of each call to DIR/PID; HOLDFAST_SIM_NATIVE_MOUNTS=1 mounts by mount(2),
 * which needs NODE_OPTIONS=--experimental-ffi.
 */
const { values } = parseArgs({
  options: {
    role: { type: "string" },
    socket: { type: "string" },
    backend: { type: "string" },
    node: { type: "string" },
    instance: { type: "string" },
    paths: { type: "string" },
    "real-mounts": { type: "boolean" },
    "stage-style": { type: "string" },
    "removes-staging": { type: "boolean" },
    "data-dir": { type: "string" },
    "verify-tokens": { type: "string" },
    "token-issuer": { type: "string" },
    "token-audience": { type: "string" },
    "old-tokens": { type: "boolean" },
  },
});

const roles: readonly Role[] = ["controller", "node", "monolith"];
const styles: readonly StageStyle[] = ["mount", "subdir", "none"];
const role = roles.find((one) => one === values.role);
const stageStyle = styles.find((one) => one === values["stage-style"]);
const callTimes = process.env["HOLDFAST_SIM_CALL_TIMES"];
// Loaded only when asked for: without the flag its module does not exist.
const native = process.env["HOLDFAST_SIM_NATIVE_MOUNTS"] === "1" ? await import("./role/native-mounter.ts") : undefined;

const jwks = values["verify-tokens"];
const tokenMode = {
  issuer: values["token-issuer"] ?? "",
  audience: values["token-audience"] ?? "",
  old: values["old-tokens"] ?? false,
};

const optionsOf = (given: { readonly role: Role; readonly socket: string }): RoleOptions => ({
  ...given,
  paths: values.paths === "made-up" ? "made-up" : "real",
  realMounts: values["real-mounts"] ?? false,
  removesStaging: values["removes-staging"] ?? false,
  ...(values.node === undefined ? {} : { node: values.node }),
  ...(values.instance === undefined ? {} : { instance: values.instance }),
  ...(stageStyle === undefined ? {} : { stageStyle }),
  ...(jwks === undefined ? {} : { verifyTokens: { jwks, ...tokenMode } }),
  ...(values["data-dir"] === undefined ? {} : { dataDir: values["data-dir"] }),
  ...(native === undefined ? {} : { mounter: native.openNativeMounter() }),
  ...(callTimes === undefined ? {} : { callTimes: path.join(callTimes, String(process.pid)) }),
});

await runUntilSignal(createLogger({ level: "info", fields: { service: "sim-plugin" } }), async () => {
  const { socket, backend: storage } = values;
  if (role === undefined || socket === undefined || storage === undefined)
    throw new ConfigError([
      ...(role === undefined ? [{ field: "--role", description: `is one of ${roles.join(", ")}` }] : []),
      ...(socket === undefined ? [{ field: "--socket", description: "is missing" }] : []),
      ...(storage === undefined ? [{ field: "--backend", description: "is missing" }] : []),
    ]);
  const backend = await connectBackend(storage);
  // A fault that kills does so as the kernel would: no handler runs, nothing is flushed.
  await serveRole(optionsOf({ role, socket }), backend, () => process.kill(process.pid, "SIGKILL"), process.pid);
  // A plugin without its storage is of no use; its supervisor starts it again.
  void backend.gone.then(() => process.exit(1));
  process.stdout.write("ready\n");
  // Nothing is stopped in order: it ends at once, as plugins do.
});
