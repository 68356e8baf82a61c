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

export interface Given {
  /** The caller's own without it. */
  readonly env?: Readonly<Record<string, string>>;
  /** Its standard input. */
  readonly input?: string;
}

/** To its end, whatever its exit code; rejects only when it could not be run or did not end in time. */
export const runToEnd = (
  command: string,
  args: readonly string[],
  deadlineMs: number,
  { env, input }: Given = {},
): Promise<Finished> =>
  new Promise((resolve, reject) => {
    const child = execFile(
      command,
      args,
      {
        cwd: root,
        timeout: deadlineMs,
        killSignal: "SIGKILL",
        maxBuffer: 1 << 26,
        ...(env === undefined ? {} : { env }),
      },
      (error, stdout, stderr) => {
        const output = stdout + stderr;
        if (error === null) resolve({ code: 0, stdout, output });
        else if (typeof error.code === "number") resolve({ code: error.code, stdout, output });
        else reject(new Error(`${command} ${args.join(" ")}: ${error.message}\n${output}`));
      },
    );
    child.stdin?.on("error", () => undefined).end(input);
  });

/** The directory of a module as its sum pins it. */
export const goModule = async (module: string, sum: string): Promise<string> => {
  const { code, stdout, output } = await runToEnd("go", ["mod", "download", "-json", module], 10 * 60_000);
  if (code !== 0) throw new Error(`${module} cannot be had:\n${output}`);
  const { Dir, Sum } = JSON.parse(stdout) as { readonly Dir: string; readonly Sum: string };
  if (Sum !== sum) throw new Error(`${module} is not what it was: ${Sum}, not ${sum}`);
  return Dir;
};

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
