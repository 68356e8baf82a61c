import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { childEnvironment } from "../support/child-environment.ts";
import { seccompOf } from "../support/under-seccomp.ts";
import { type UnitName, unitRights } from "../support/unit-rights.ts";

/** A service as a process of its own: started, watched, killed and started again by tests, the demo and the bench. */
export interface ManagedProcess {
  readonly name: string;
  readonly pid: number;
  /** Everything it printed, lives of before included. */
  output(): string;
  /** The first log line whose message matches; rejects with the output when the process ends before. */
  line(match: (line: Record<string, unknown>) => boolean, what: string): Promise<Record<string, unknown>>;
  exited(): Promise<number | NodeJS.Signals>;
  running(): boolean;
  kill(signal: NodeJS.Signals): Promise<number | NodeJS.Signals>;
  signal(signal: NodeJS.Signals): void;
}

export interface ProcessSpec {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
  /** Runs it inside a network namespace that the test made. */
  readonly netns?: string;
  /** Runs it inside the mount namespace of that process. */
  readonly mountsOf?: number;
  /** With the rights alone that this unit of deploy/systemd leaves it, under the seccomp profile of its container. */
  readonly rightsOf?: UnitName;
}

const parse = (line: string): Record<string, unknown> | undefined => {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
};

/** `nsenter`, not `ip netns exec`: that one would also hide the mounts made inside from the host. */
const wrapped = ({ netns, mountsOf, rightsOf, command }: ProcessSpec): readonly [string, ...string[]] => {
  const spaces = [
    ...(netns === undefined ? [] : [`--net=/run/netns/${netns}`]),
    ...(mountsOf === undefined ? [] : [`--mount=/proc/${mountsOf}/ns/mnt`]),
  ];
  const started: ProcessSpec["command"] =
    rightsOf === undefined ? command : [...unitRights(rightsOf), ...seccompOf(rightsOf), ...command];
  return spaces.length === 0 ? started : ["nsenter", ...spaces, "--", ...started];
};

/** Starts a process with only the environment that it is given (and that of every child), so that the caller's settings cannot leak in. */
export const startProcess = (spec: ProcessSpec): ManagedProcess => {
  const [file, ...args] = wrapped(spec);
  const child: ChildProcess = spawn(file, args, {
    env: { ...childEnvironment(), HOME: process.env["HOME"] ?? "/", ...spec.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const lines: string[] = [];
  const watchers = new Set<(line: string) => void>();
  let rest = "";
  const take = (chunk: Buffer): void => {
    const parts = (rest + chunk.toString("utf8")).split("\n");
    rest = parts.pop() ?? "";
    for (const line of parts) {
      lines.push(line);
      for (const watch of watchers) watch(line);
    }
  };
  child.stdout?.on("data", take);
  child.stderr?.on("data", take);
  const ended = (async (): Promise<number | NodeJS.Signals> => {
    const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
    return code ?? signal ?? 1;
  })();
  const output = (): string => [...lines, rest].join("\n");
  return {
    name: spec.name,
    pid: child.pid ?? 0,
    output,
    exited: () => ended,
    running: () => child.exitCode === null && child.signalCode === null,
    signal: (signal) => void child.kill(signal),
    kill: async (signal) => {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      return ended;
    },
    line: (match, what) =>
      new Promise((resolve, reject) => {
        const check = (text: string): boolean => {
          const value = parse(text);
          if (value === undefined || !match(value)) return false;
          watchers.delete(check);
          resolve(value);
          return true;
        };
        if (lines.some(check)) return;
        watchers.add(check);
        void ended.then((code) => {
          if (watchers.delete(check)) reject(new Error(`${spec.name} ended with ${code} before: ${what}\n${output()}`));
        });
      }),
  };
};
