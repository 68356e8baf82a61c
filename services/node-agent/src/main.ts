import { loadConfig } from "@holdfast/shared/config/config";
import { exitCodes, runUntilSignal } from "@holdfast/shared/lifecycle";
import { createApp } from "./app.ts";
import { configSchema } from "./config.ts";

await runUntilSignal(async (signal, run) => {
  const config = loadConfig(configSchema, process.env);
  const app = createApp(config, {
    kill: () => process.kill(process.pid, "SIGKILL"),
    // What is on disk is not known any more: end, and read it again.
    fatal: (error) => {
      app.log.error("the journal cannot be written", { error });
      process.exit(exitCodes.software);
    },
  });
  run.setLogger(app.log);
  await app.start(signal);
  return app;
});
