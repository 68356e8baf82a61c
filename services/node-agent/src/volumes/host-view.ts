import { readlink } from "node:fs/promises";
import { linkOf } from "./process-links.ts";

/** The inode of the first pid namespace: constant in Linux (PROC_PID_INIT_INO). From there every process is seen. */
const firstPidNamespace = "pid:[4026531836]";

/** Whether the mounts of the host's other processes can be looked at, or why not. */
export type HostView = "whole" | "own-pid-namespace" | "not-allowed";

export const hostView = async (proc: string): Promise<HostView> => {
  if ((await readlink(`${proc}/self/ns/pid`)) !== firstPidNamespace) return "own-pid-namespace";
  // Without CAP_SYS_PTRACE the processes are listed and their mounts are not told: that verifies nothing.
  return linkOf(`${proc}/1/ns/mnt`) === undefined ? "not-allowed" : "whole";
};
