import { randomUUID } from "node:crypto";
import tls from "node:tls";
import { systemClock } from "@holdfast/shared/async/clock";
import { warnOfCliConfig } from "@holdfast/shared/config/cli-environment";
import { loadConfig } from "@holdfast/shared/config/config";
import { watchDescriptors } from "@holdfast/shared/descriptor-watch";
import { printFindings } from "@holdfast/shared/doctor/print-findings";
import { collectWhenIdle } from "@holdfast/shared/idle-collector";
import { runUntilSignal } from "@holdfast/shared/lifecycle";
import { createLogger } from "@holdfast/shared/log/logger";
import { createSilentLogger } from "@holdfast/shared/log/silent-logger";
import { plainKeys } from "@holdfast/shared/plain-keys";
import { refuseDebugging } from "@holdfast/shared/refuse-debugging";
import { exitCodes } from "@holdfast/shared/start-failure";
import { createApp } from "./app.ts";
import { configSchema } from "./config.ts";
import { askController } from "./controller-link/ask-controller.ts";
import { examineAgent } from "./doctor/examine-agent.ts";
import { openCertificates } from "./link-certificates.ts";

plainKeys();

const check = async (): Promise<number> => {
  const log = createSilentLogger();
  return await printFindings(
    () => {
      const config = loadConfig(configSchema, process.env);
      const { node, proxy } = config;
      const asking = { node, proxy, instance: randomUUID(), newId: randomUUID, clock: systemClock, log };
      const { signal } = new AbortController();
      const ask = async (address: string) =>
        await askController(address, { ...asking, credentials: openCertificates({ config, log, signal }) });
      return examineAgent({ config, ask, now: Date.now, searchPath: process.env["PATH"] ?? "" });
    },
    (line) => process.stdout.write(line),
  );
};

// Of every connection of this process, also of those whose options name no version.
tls.DEFAULT_MIN_VERSION = "TLSv1.3";

const [word] = process.argv.slice(2);

if (word === "check") {
  process.exit(await check());
} else if (word !== undefined) {
  process.stderr.write(`there is no ${word}: without a word the agent serves, or check\n`);
  process.exit(64);
} else {
  const firstLog = createLogger({ level: "info", fields: { service: "node-agent" } });
  await runUntilSignal(firstLog, async (signal, run) => {
    const config = loadConfig(configSchema, process.env);
    run.setConfig(configSchema, config);
    const app = createApp(config, {
      kill: () => process.kill(process.pid, "SIGKILL"),
      // What is on disk is not known any more: end, and read it again.
      fatal: (error) => {
        app.log.error("the journal cannot be written", { error });
        process.exit(exitCodes.software);
      },
    });
    run.setLogger(app.log);
    refuseDebugging(config.debugRuntime, process, app.log);
    warnOfCliConfig(app.log, process.env);
    watchDescriptors({ log: app.log, signal });
    collectWhenIdle(process, signal);
    await app.start(signal);
    return app;
  });
}
