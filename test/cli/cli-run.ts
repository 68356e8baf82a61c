import { spawn, spawnSync } from "node:child_process";
import path from "node:path";
import { text as textOf } from "node:stream/consumers";
import type { Sink } from "@holdfast/cli/frame/io";
import { runCli } from "@holdfast/cli/run-cli";
import { verifyAudit } from "@holdfast/shared/audit/verify-audit";
import { loadConfig } from "@holdfast/shared/config/config";
import { printFindings } from "@holdfast/shared/doctor/print-findings";

export interface CliOptions {
  readonly address?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** By path; `-` is standard input. */
  readonly files?: Readonly<Record<string, string>>;
  readonly terminal?: boolean;
  readonly columns?: number;
  /** A command around the program of a service that is checked, such as `unshare --mount`. */
  readonly around?: (service: string) => readonly string[];
  /** To a question; nothing: there is no terminal to ask at. */
  readonly says?: boolean;
  /** Ctrl-C. */
  readonly signal?: AbortSignal;
  /** Called with all of standard error after each write to it. */
  readonly onProgress?: (text: string) => unknown;
  /** The same for standard output. */
  readonly onOutput?: (text: string) => unknown;
}

export interface CliEnd {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** As `main.ts check` of the controller does, in this process. Loaded on demand: most command lines check no service. */
const checkController = async (env: NodeJS.ProcessEnv): Promise<string> => {
  const { configSchema } = await import("@holdfast/controller/config");
  const { doctorFindings } = await import("@holdfast/controller/doctor-wiring");
  const lines: string[] = [];
  await printFindings(
    async () => await doctorFindings(loadConfig(configSchema, env), env),
    (line) => void lines.push(line),
  );
  return lines.join("");
};

/** The command line in this process, with a world of its own. */
export const cliRun = async (args: readonly string[], options: CliOptions = {}): Promise<CliEnd> => {
  const text = { out: "", err: "" };
  const sink = (to: "out" | "err"): Sink => ({
    write: (part) => {
      text[to] += part;
      (to === "err" ? options.onProgress : options.onOutput)?.(text[to]);
    },
    terminal: options.terminal === true,
    columns: options.columns ?? 120,
  });
  const code = await runCli({
    args,
    io: {
      stdout: sink("out"),
      stderr: sink("err"),
      stdin: async () => options.files?.["-"] ?? "",
      confirm: async (question) => {
        text.err += `${question}\n`;
        return options.says;
      },
      readFile: async (path) => {
        const content = options.files?.[path];
        if (content === undefined) throw new Error(`there is no file ${path}`);
        return new TextEncoder().encode(content);
      },
      verifyAudit: async (paths, head) => verifyAudit(paths, head),
      env: { ...(options.address === undefined ? {} : { HOLDFAST_ADDRESS: options.address }), ...options.env },
      home: "/home/ada",
      user: "ada",
      now: () => Date.now(),
      checkService: async (service, settings) => {
        const main = path.resolve(import.meta.dirname, `../../services/${service}/src/main.ts`);
        const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
        const env = { ...Object.fromEntries(inherited), ...settings };
        if (service === "controller" && options.around === undefined) return await checkController(env);
        const [program = "", ...before] = options.around?.(service) ?? [];
        const command = program === "" ? [process.execPath] : [program, ...before, process.execPath];
        const child = spawn(command[0] ?? "", [...command.slice(1), main, "check"], {
          env,
          stdio: ["ignore", "pipe", "pipe"],
        });
        const [printed, said] = await Promise.all([textOf(child.stdout), textOf(child.stderr)]);
        text.err += said;
        return printed;
      },
      runController: async (given) => {
        const main = path.resolve(import.meta.dirname, "../../services/controller/src/main.ts");
        const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
        const env = { ...Object.fromEntries(inherited), ...options.env };
        const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...given], { env, encoding: "utf8" });
        text.out += stdout;
        text.err += stderr;
        return status ?? 130;
      },
      signal: options.signal ?? new AbortController().signal,
    },
  });
  return { code, ...text };
};
