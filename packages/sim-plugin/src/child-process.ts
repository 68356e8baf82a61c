import { type ChildProcess, spawn } from "node:child_process";

export interface RunningChild {
  readonly pid: number;
  kill(signal?: NodeJS.Signals): void;
  /** SIGTERM, then SIGKILL when it does not go; resolves when it is gone. */
  stop(): Promise<void>;
  /** The exit code, or the signal it died of. */
  readonly exited: Promise<number | string>;
}

const patienceMs = 3000;

/** Starts a module of this package on the Node that runs us, and waits until it says that it is ready. */
export const startChild = async (
  module: URL,
  args: readonly string[],
  env?: NodeJS.ProcessEnv,
): Promise<RunningChild> => {
  const child: ChildProcess = spawn(process.execPath, [module.pathname, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    ...(env === undefined ? {} : { env }),
  });
  let complaint = "";
  child.stderr?.on("data", (chunk) => {
    complaint = `${complaint}${chunk}`.slice(-4000);
  });
  const exited = new Promise<number | string>((resolve) => {
    child.once("exit", (code, signal) => resolve(signal ?? code ?? 0));
  });
  await new Promise<void>((resolve, reject) => {
    child.stdout?.on("data", (chunk) => {
      if (`${chunk}`.includes("ready")) resolve();
    });
    child.once("error", reject);
    void exited.then((how) =>
      reject(new Error(`${module.pathname} ended with ${how} before it was ready: ${complaint}`)),
    );
  });
  const { pid } = child;
  if (pid === undefined) throw new Error(`${module.pathname} did not start`);
  return {
    pid,
    kill: (signal = "SIGKILL") => void child.kill(signal),
    stop: async () => {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), patienceMs);
      await exited;
      clearTimeout(timer);
    },
    exited,
  };
};
