import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, existsSync } from "node:fs";
import os from "node:os";
import { text } from "node:stream/consumers";
import tls from "node:tls";
import { fileURLToPath } from "node:url";
import { plainKeys } from "@holdfast/shared/plain-keys";
import { readUpTo } from "./frame/bounded-text.ts";
import type { CheckedService } from "./frame/io.ts";
import { runCli } from "./run-cli.ts";

// Of every connection of this process, also of those whose options name no version.
tls.DEFAULT_MIN_VERSION = "TLSv1.3";
plainKeys();

const mains: Readonly<Record<CheckedService, URL>> = {
  controller: new URL("../../../services/controller/src/main.ts", import.meta.url),
  "node-agent": new URL("../../../services/node-agent/src/main.ts", import.meta.url),
};

const mainOf = (service: CheckedService): string | undefined => {
  const file = fileURLToPath(mains[service]);
  return existsSync(file) ? file : undefined;
};

const runController = async (args: readonly string[]): Promise<number | undefined> => {
  const main = mainOf("controller");
  if (main === undefined) return undefined;
  const child = spawn(process.execPath, [main, ...args], { stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 130;
};

const checkService = async (
  service: CheckedService,
  settings: Readonly<Record<string, string>>,
): Promise<string | undefined> => {
  const main = mainOf(service);
  if (main === undefined) return undefined;
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
  const env = { ...Object.fromEntries(others), ...settings };
  const child = spawn(process.execPath, [main, "check"], { stdio: ["ignore", "pipe", "inherit"], env });
  return await text(child.stdout);
};

const confirm = async (question: string): Promise<boolean | undefined> => {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return undefined;
  const { createInterface } = await import("node:readline/promises");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/i.test((await lines.question(`${question} [y/N] `, { signal: interrupt.signal })).trim());
  } catch (error) {
    if (interrupt.signal.aborted) return false;
    throw error;
  } finally {
    lines.close();
  }
};

const interrupt = new AbortController();
// The first one ends what waits, with words; a second one ends everything.
process.once("SIGINT", () => {
  interrupt.abort();
  process.once("SIGINT", () => process.exit(130));
});
process.once("SIGTERM", () => interrupt.abort());
// `holdfast volume list | head`: who has read enough is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

process.exitCode = await runCli({
  args: process.argv.slice(2),
  io: {
    stdout: {
      write: (part) => void process.stdout.write(part),
      terminal: process.stdout.isTTY === true,
      columns: process.stdout.columns ?? 80,
    },
    stderr: {
      write: (part) => void process.stderr.write(part),
      terminal: process.stderr.isTTY === true,
      columns: process.stderr.columns ?? 80,
    },
    stdin: async () => new TextDecoder().decode(await readUpTo(process.stdin)),
    confirm,
    readFile: (path) => readUpTo(createReadStream(path)),
    verifyAudit: async (paths, head) => {
      const { verifyAudit } = await import("@holdfast/shared/audit/verify-audit");
      return verifyAudit(paths, head);
    },
    env: process.env,
    home: os.homedir(),
    user: os.userInfo().username,
    now: () => Date.now(),
    runController,
    checkService,
    signal: interrupt.signal,
  },
});
process.exit();
