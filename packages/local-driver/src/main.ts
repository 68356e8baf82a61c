import { warnOfCliConfig } from "@holdfast/shared/config/cli-environment";
import { loadConfig } from "@holdfast/shared/config/config";
import { runUntilSignal } from "@holdfast/shared/lifecycle";
import { plainKeys } from "@holdfast/shared/plain-keys";
import { createApp } from "./app.ts";
import { configSchema } from "./config.ts";

plainKeys();

await runUntilSignal(async (signal, run) => {
  const app = await createApp(loadConfig(configSchema, process.env));
  run.setLogger(app.log);
  warnOfCliConfig(app.log, process.env);
  await app.start(signal);
  return app;
});
