import { loadConfig } from "@holdfast/shared/config/config";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { runUntilSignal } from "@holdfast/shared/lifecycle";
import { createApp } from "./app.ts";
import { configSchema } from "./config.ts";

/** What is wrong with the world as a setting describes it: whoever starts the service has to act, and no restart will help. */
const settingBehind: Readonly<Record<string, string>> = {
  STORE_VOLATILE: "HOLDFAST_STORE",
  STORE_SCHEMA_NEWER: "HOLDFAST_STORE",
  INSECURE_ADDRESS: "HOLDFAST_LISTEN",
  STATE_DIR_IN_USE: "HOLDFAST_STATE_DIR",
};

const asConfigError = (error: unknown): unknown => {
  const setting = isHoldfastError(error) ? settingBehind[error.reason] : undefined;
  return setting === undefined || !isHoldfastError(error)
    ? error
    : new ConfigError([{ field: setting, description: `cannot be used (${error.reason}): ${error.message}` }]);
};

await runUntilSignal(async (_signal, run) => {
  const config = loadConfig(configSchema, process.env);
  const app = createApp(config, {
    env: process.env,
    kill: () => process.kill(process.pid, "SIGKILL"),
  });
  run.setLogger(app.log);
  try {
    await app.start();
  } catch (error) {
    throw asConfigError(error);
  }
  return app;
});
