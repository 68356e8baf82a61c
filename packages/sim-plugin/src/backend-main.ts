import { parseArgs } from "node:util";
import { createBackend } from "./backend/backend.ts";
import { decode } from "./backend/json.ts";
import type { BackendSettings } from "./backend/settings.ts";
import { serveBackend } from "./backend-server.ts";
import { loadState, saveState } from "./state-file.ts";

/** The process that owns the simulated storage: node backend-main.ts --socket PATH [--state FILE] [--settings JSON] */
const { values } = parseArgs({
  options: { socket: { type: "string" }, state: { type: "string" }, settings: { type: "string" } },
});
if (values.socket === undefined) throw new Error("--socket is missing");

const settings = values.settings === undefined ? {} : (decode(values.settings) as BackendSettings);
const file = values.state;
const restored = file === undefined ? undefined : loadState(file);
const backend = createBackend({
  ...settings,
  ...(restored === undefined ? {} : { restored }),
  ...(file === undefined ? {} : { onChange: (snapshot) => saveState(file, snapshot) }),
});
await serveBackend(backend, values.socket);
process.stdout.write("ready\n");
process.once("SIGTERM", () => process.exit(0));
