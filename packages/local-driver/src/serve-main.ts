import { warnOfCliConfig } from "@holdfast/shared/config/cli-environment";
import { loadConfig } from "@holdfast/shared/config/config";
import { watchDescriptors } from "@holdfast/shared/descriptor-watch";
import { runUntilSignal } from "@holdfast/shared/lifecycle";
import { createLogger } from "@holdfast/shared/log/logger";
import { plainKeys } from "@holdfast/shared/plain-keys";
import { refuseDebugging } from "@holdfast/shared/refuse-debugging";
import { createApp } from "./app.ts";
import { configSchema } from "./config.ts";

plainKeys();

const firstLog = createLogger({ level: "info", fields: { service: "local-driver" } });

await runUntilSignal(firstLog, async (signal, run) => {
  const config = loadConfig(configSchema, process.env);
  run.setConfig(configSchema, config);
  const app = await createApp(config);
  run.setLogger(app.log);
  refuseDebugging(config.debugRuntime, process, app.log);
  warnOfCliConfig(app.log, process.env);
  watchDescriptors({ log: app.log, signal });
  await app.start(signal);
  return app;
});
