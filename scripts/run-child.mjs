// Runs one program, passes its exit code on, and never leaves it behind.
import { spawn } from "node:child_process";
import os from "node:os";
import { root } from "./paths.mjs";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"];

/**
 * The child leads a process group of its own, so that a stop reaches its children too, whether it came from the
 * terminal (Ctrl-C) or from a parent that signals one pid only (npm, a CI runner).
 *
 * `listen` has a listener for each descriptor that `stdio` makes a pipe.
 * `graceMs` is how long the child may take to clean up (unmount, stop its own children) once it was asked to stop.
 *
 * @returns {Promise<number>} the exit code; 128 + the number of the signal for a child that was stopped
 */
export function runChild(command, args, { env = process.env, stdio = "inherit", listen = {}, graceMs = 20_000 } = {}) {
  return new Promise((resolve, reject) => {
    let asked;
    const stop = (signal) => {
      if (asked !== undefined) {
        // One Ctrl-C arrives twice, from the terminal and from npm: only a later one means "now".
        if (Date.now() - asked.at > 1_000) signalGroup(child, "SIGKILL");
        return;
      }
      asked = { signal, at: Date.now(), killer: setTimeout(() => signalGroup(child, "SIGKILL"), graceMs) };
      signalGroup(child, signal);
    };
    // Before the child starts: a signal that came between would end this process and leave the child behind.
    for (const signal of signals) process.on(signal, stop);
    const child = spawn(command, args, { cwd: root, env, stdio, detached: true });
    for (const [descriptor, onData] of Object.entries(listen)) child.stdio[descriptor].on("data", onData);
    const watch = watchParent(() => stop("SIGTERM"));
    const settle = () => {
      clearTimeout(asked?.killer);
      clearInterval(watch);
      for (const signal of signals) process.off(signal, stop);
    };

    child.on("error", (error) => {
      settle();
      reject(error);
    });
    child.on("close", (code, signal) => {
      settle();
      const ending = code === 0 ? undefined : (asked?.signal ?? signal ?? undefined);
      resolve(ending === undefined ? code : 128 + os.constants.signals[ending]);
    });
  });
}

function signalGroup(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

/** A signal for `npm run` ends npm and its shell, and the shell tells nobody: losing the parent is the message. */
function watchParent(orphaned) {
  if (process.env.npm_lifecycle_event === undefined) return undefined;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid !== parent) {
      clearInterval(timer);
      orphaned();
    }
  }, 250);
  return timer;
}
