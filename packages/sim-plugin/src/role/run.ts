import { execFile } from "node:child_process";

const commandDeadlineMs = 10_000;

/** Runs one command without a shell, kills it when it takes too long, and answers its output. */
export const run = (command: string, args: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    execFile(command, args, { timeout: commandDeadlineMs, killSignal: "SIGKILL" }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${command} ${args.join(" ")}: ${stderr.trim() || error.message}`));
    });
  });
