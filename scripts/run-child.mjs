// Runs one program, passes its exit code on, and never outlives or orphans it.
import { spawn } from "node:child_process";
import os from "node:os";
import { root } from "./paths.mjs";

/** How long a child may take to clean up (unmount, stop its own children) once it was asked to stop. */
const graceMs = 20_000;

/**
 * The child leads a process group of its own, so that a stop reaches its children too, whether it came from the
 * terminal (Ctrl-C) or from a parent that signals one pid only (npm, a CI runner).
 *
 * @returns {Promise<number>} the exit code, or 128 + the number of the signal that ended the child
 */
export function runChild(command, args, { env = process.env, stdio = "inherit", onStderr } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, env, stdio, detached: true });
    if (onStderr !== undefined) child.stderr.on("data", onStderr);
    let killer;
    let askedAt = 0;
    const signalGroup = (signal) => {
      try {
        process.kill(-child.pid, signal);
      } catch (error) {
        if (error.code !== "ESRCH") throw error;
      }
    };
    const stop = (signal) => {
      // One Ctrl-C arrives twice, from the terminal and from npm: only a later one means "now".
      if (killer !== undefined) return Date.now() - askedAt > 1_000 ? signalGroup("SIGKILL") : undefined;
      askedAt = Date.now();
      signalGroup(signal);
      killer = setTimeout(() => signalGroup("SIGKILL"), graceMs);
      killer.unref();
    };
    const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
    for (const signal of signals) process.on(signal, stop);
    const settle = () => {
      clearTimeout(killer);
      for (const signal of signals) process.off(signal, stop);
    };
    child.on("error", (error) => {
      settle();
      reject(error);
    });
    child.on("close", (code, signal) => {
      settle();
      resolve(code ?? 128 + os.constants.signals[signal]);
    });
  });
}
