import { loadConfig } from "@holdfast/shared/config/config";
import { runUntilSignal } from "@holdfast/shared/lifecycle";
import { createApp } from "./app.ts";
import { configSchema } from "./config.ts";

await runUntilSignal(async (_signal, run) => {
  const config = loadConfig(configSchema, process.env);
  const app = createApp(config, {
    env: process.env,
    kill: () => process.kill(process.pid, "SIGKILL"),
  });
  run.setLogger(app.log);
  await app.start();
  return app;
});
