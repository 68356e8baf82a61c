import { execFile } from "node:child_process";

/** Runs a program for a test; rejects with all it said. */
export const runCommand = (file: string, ...args: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    execFile(file, args, { timeout: 60_000, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${file} ${args.join(" ")}: ${error.message}\n${stdout}${stderr}`));
    });
  });
