/**
 * Programs of the system as children that can be killed. No shell is ever between: each argument arrives as it is.
 *
 * C1 A promise of a child settles only when the child is gone: whoever is told of a failure may act on the same volume next.
 *    A child in a system call that cannot be interrupted is waited for, since what it does is still being done.
 * C2 An aborted child is killed with all of its own, by its process group, and never resolves.
 * C3 Each child carries the mark of its state directory in its environment, so that the next life finds what this one left.
 * C4 Memory is bounded, whatever a child writes.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { DriverError } from "../domain/driver-error.ts";
import { errnoOf, givenUp, messageOf } from "./host-failure.ts";

/** NAME=state directory, in the environment of each child. */
export const childMark = "HOLDFAST_LOCAL_CHILD_OF";

export interface ToolResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ToolOptions {
  readonly signal: AbortSignal;
  /** Exit codes that the caller judges for itself; 0 alone unless given. Any other is thrown as a DriverError. */
  readonly judges?: readonly number[];
  /** Gets the lines of standard output one by one, in place of `stdout`. What it throws kills the child. */
  readonly onLine?: (line: string) => void;
}

export type RunTool = (program: string, args: readonly string[], options: ToolOptions) => Promise<ToolResult>;

export interface RunToolOptions {
  /** As endStrayChildren() is given it: the same string in every life. */
  readonly stateDir: string;
  readonly nodeId: string;
  /** Where programs are looked for. */
  readonly path?: string | undefined;
}

const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const maxOutputBytes = 1 << 18;
const maxComplaintBytes = 4096;
/** For a descendant that left the group and holds the pipes: what it writes is of no interest. */
const pipesGraceMs = 1000;

/** program → the Debian package that has it */
const packages: Readonly<Record<string, string>> = {
  "mkfs.ext4": "e2fsprogs",
  e2fsck: "e2fsprogs",
  resize2fs: "e2fsprogs",
  tune2fs: "e2fsprogs",
  filefrag: "e2fsprogs",
  "mkfs.xfs": "xfsprogs",
  xfs_admin: "xfsprogs",
  xfs_growfs: "xfsprogs",
  mount: "mount",
  umount: "mount",
  losetup: "mount",
  blkid: "util-linux",
  blockdev: "util-linux",
  fsfreeze: "util-linux",
  unshare: "util-linux",
  find: "findutils",
};

type Child = ChildProcessByStdio<null, Readable, Readable>;

export function createRunTool({ stateDir, nodeId, path = usualPath }: RunToolOptions): RunTool {
  const env = { PATH: path, LC_ALL: "C", [childMark]: stateDir };
  return async (program, args, { signal, judges = [0], onLine }) => {
    const what = `run ${[program, ...args].join(" ")} on node ${nodeId}`;
    if (signal.aborted) throw givenUp(what, signal);
    // A group of its own, so that the kill reaches the children of the child.
    const child: Child = spawn(program, args, { detached: true, env, cwd: "/", stdio: ["ignore", "pipe", "pipe"] });
    let failure: { readonly error: unknown } | undefined;
    const kill = () => killGroup(child);
    const fail = (error: unknown) => {
      failure ??= { error };
      kill();
    };
    const output = onLine === undefined ? collect(child.stdout, fail, what) : feedLines(child.stdout, onLine, fail);
    const complaint = tailOf(child.stderr);
    signal.addEventListener("abort", kill, { once: true });
    try {
      const { code, killedBy } = await ended(child, (error) => notStarted(error, { program, nodeId, what })); // C1
      if (signal.aborted) throw givenUp(what, signal); // C2
      if (failure !== undefined) throw failure.error;
      const stderr = complaint();
      if (code !== null && judges.includes(code)) return { code, stdout: output(), stderr };
      throw failed(what, code === null ? `died of ${killedBy}` : `ended with exit code ${code}`, stderr || output());
    } finally {
      signal.removeEventListener("abort", kill);
    }
  };
}

/** While Node has not seen it end, its number is not given to another: the group that is killed is the child's own. */
function killGroup(child: Child): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}

interface Ending {
  readonly code: number | null;
  readonly killedBy: NodeJS.Signals | null;
}

function ended(child: Child, notStarted: (error: unknown) => DriverError): Promise<Ending> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    child.once("error", (error) => reject(notStarted(error)));
    child.once("exit", () => {
      timer = setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
      }, pipesGraceMs);
    });
    child.once("close", (code, killedBy) => {
      clearTimeout(timer);
      resolve({ code, killedBy });
    });
  });
}

function collect(stream: Readable, fail: (error: unknown) => void, what: string): () => string {
  const parts: Buffer[] = [];
  let bytes = 0;
  stream.on("data", (part: Buffer) => {
    bytes += part.length;
    if (bytes <= maxOutputBytes) parts.push(part);
    else fail(new DriverError("INTERNAL", `cannot ${what}: it writes more than ${maxOutputBytes} bytes`)); // C4
  });
  return () => Buffer.concat(parts).toString("utf8");
}

function feedLines(stream: Readable, onLine: (line: string) => void, fail: (error: unknown) => void): () => string {
  let rest = "";
  stream.setEncoding("utf8");
  const feed = (lines: readonly string[]) => {
    try {
      for (const line of lines) onLine(line);
    } catch (error) {
      fail(error);
    }
  };
  stream.on("data", (part: string) => {
    const lines = (rest + part).split("\n");
    rest = (lines.pop() ?? "").slice(0, maxOutputBytes); // C4
    feed(lines);
  });
  stream.on("end", () => feed(rest === "" ? [] : [rest]));
  return () => "";
}

/** The end of what it says: there the reason stands. */
function tailOf(stream: Readable): () => string {
  let tail = Buffer.alloc(0);
  stream.on("data", (part: Buffer) => {
    tail = Buffer.concat([tail, part]).subarray(-maxComplaintBytes); // C4
  });
  return () => tail.toString("utf8").trim();
}

function failed(what: string, how: string, complaint: string): DriverError {
  const said = complaint === "" ? "" : `: ${complaint.slice(-maxComplaintBytes)}`;
  const message = `cannot ${what}: it ${how}${said}`;
  if (/No space left on device|Disk quota exceeded/.test(complaint))
    return new DriverError("RESOURCE_EXHAUSTED", `${message}; delete volumes or snapshots, or enlarge the disk`);
  if (/Permission denied|Operation not permitted/.test(complaint))
    return new DriverError("FAILED_PRECONDITION", `${message}; the driver needs to run as root with CAP_SYS_ADMIN`);
  return new DriverError("INTERNAL", `${message}; look at the kernel log of this node`);
}

function notStarted(
  error: unknown,
  { program, nodeId, what }: { readonly program: string; readonly nodeId: string; readonly what: string },
): DriverError {
  if (errnoOf(error) !== "ENOENT")
    return new DriverError("UNAVAILABLE", `cannot ${what}: ${messageOf(error)}; repeat the call`, { cause: error });
  const cure = packages[program] === undefined ? "install it" : `apt-get install ${packages[program]}`;
  return new DriverError("FAILED_PRECONDITION", `${program} is not installed on node ${nodeId}: ${cure}`, {
    cause: error,
  });
}
