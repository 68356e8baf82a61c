import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import path from "node:path";

export const root = path.resolve(import.meta.dirname, "../..");

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  /** Standard output and standard error. */
  readonly output: string;
}

/** To its end, whatever its exit code; rejects only when it could not be run or did not end in time. */
export const runToEnd = (command: string, args: readonly string[], deadlineMs: number): Promise<Finished> =>
  new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      { cwd: root, timeout: deadlineMs, killSignal: "SIGKILL", maxBuffer: 1 << 26 },
      (error, stdout, stderr) => {
        const output = stdout + stderr;
        if (error === null) resolve({ code: 0, stdout, output });
        else if (typeof error.code === "number") resolve({ code: error.code, stdout, output });
        else reject(new Error(`${command} ${args.join(" ")}: ${error.message}\n${output}`));
      },
    );
  });

/** Builds one program from the module in that directory, as its go.mod pins it; Go's own cache makes a second build cheap. */
export const buildGoProgram = async (
  name: string,
  moduleDir: string,
  packagePath: string,
  deadlineMs: number,
): Promise<string> => {
  const binary = path.join(root, ".cache", name);
  await mkdir(path.dirname(binary), { recursive: true });
  const { code, output } = await runToEnd("go", ["build", "-C", moduleDir, "-o", binary, packagePath], deadlineMs);
  if (code !== 0) throw new Error(`${name} did not build:\n${output}`);
  return binary;
};
