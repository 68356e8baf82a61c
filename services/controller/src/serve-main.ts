import { randomUUID } from "node:crypto";
import path from "node:path";
import tls from "node:tls";
import { warnOfCliConfig } from "@holdfast/shared/config/cli-environment";
import { loadConfig } from "@holdfast/shared/config/config";
import { ConfigError } from "@holdfast/shared/config/config-error";
import { watchDescriptors } from "@holdfast/shared/descriptor-watch";
import { printFindings } from "@holdfast/shared/doctor/print-findings";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { collectWhenIdle } from "@holdfast/shared/idle-collector";
import { runUntilSignal } from "@holdfast/shared/lifecycle";
import { createLogger } from "@holdfast/shared/log/logger";
import { plainKeys } from "@holdfast/shared/plain-keys";
import { refuseDebugging } from "@holdfast/shared/refuse-debugging";
import { createApp } from "./app.ts";
import { isOfflineCommand, offlineCommands, runOffline } from "./backup/offline.ts";
import { configSchema } from "./config.ts";
import { doctorFindings } from "./doctor-wiring.ts";
import { runRebuild } from "./rebuild-wiring.ts";
import { judgeRecord } from "./records/shape/record-readers.ts";
import { refuseUnfitRoots } from "./secrets-wiring.ts";

plainKeys();

// Of every connection of this process, also of those whose options name no version.
tls.DEFAULT_MIN_VERSION = "TLSv1.3";

const [word, file, second] = process.argv.slice(2);

if (word === "check") {
  const examine = () => doctorFindings(loadConfig(configSchema, process.env), process.env);
  process.exit(
    await printFindings(
      async () => await examine(),
      (line) => process.stdout.write(line),
    ),
  );
} else if (isOfflineCommand(word) || word === "rebuild") {
  const interrupt = new AbortController();
  process.once("SIGINT", () => interrupt.abort());
  try {
    const config = loadConfig(configSchema, process.env);
    const shared = {
      ids: { uuid: randomUUID, random: Math.random },
      log: createLogger({ level: "error", destination: process.stderr, fields: { service: "controller" } }),
      say: (line: string) => void process.stdout.write(`${line}\n`),
      signal: interrupt.signal,
    };
    if (word === "rebuild") await runRebuild({ ...shared, config, env: process.env, nodes: file, file: second });
    else
      await runOffline(word, file, {
        ...shared,
        settings: { ...config, store: config.store ?? `sqlite://${path.join(config.stateDir, "store.db")}` },
        judge: judgeRecord,
      });
    process.exit(0);
  } catch (error) {
    const known = isHoldfastError(error) ? `${error.message} (${error.reason})` : undefined;
    process.stderr.write(`${known ?? (error instanceof Error ? error.message : String(error))}\n`);
    const refused = isHoldfastError(error) && error.reason === "EXPORT_NEWER";
    process.exit(error instanceof ConfigError || refused ? 78 : 1);
  }
} else if (word !== undefined) {
  process.stderr.write(
    `there is no ${word}: without a word the controller serves, or check, ${offlineCommands.join(", ")}, rebuild\n`,
  );
  process.exit(64);
} else {
  const firstLog = createLogger({ level: "info", fields: { service: "controller" } });
  await runUntilSignal(firstLog, async (signal, run) => {
    const config = loadConfig(configSchema, process.env);
    run.setConfig(configSchema, config);
    refuseUnfitRoots(config, process.env);
    const app = createApp(config, {
      env: process.env,
      kill: () => process.kill(process.pid, "SIGKILL"),
    });
    run.setLogger(app.log);
    refuseDebugging(config.debugRuntime, process, app.log);
    warnOfCliConfig(app.log, process.env);
    watchDescriptors({ log: app.log, signal });
    collectWhenIdle(process, signal);
    await app.start();
    return app;
  });
}
