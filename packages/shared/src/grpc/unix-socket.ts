/** A socket file outlives a process that was killed; the next one has to tell a left-over from a server that runs. */
import { lstat, unlink } from "node:fs/promises";
import { connect } from "node:net";
import { dirname } from "node:path";
import { HoldfastError } from "../errors/holdfast-error.ts";

/** Removes a socket that nobody listens on. Refuses to touch a live one, or anything that is no socket. */
export async function clearStaleSocket(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (found === undefined) {
    // The system calls a missing directory a missing right.
    const there = await lstat(dirname(path)).catch((error: NodeJS.ErrnoException) => error.code !== "ENOENT");
    if (there === false) throw noDirectory(path);
    return;
  }
  if (!found.isSocket()) throw inUse(path, "is there already and is no socket; remove it or choose another path");
  if (await answers(path)) throw inUse(path, "is in use by another process; stop it or choose another path");
  await unlink(path);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.setTimeout(1000, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED" || error.code === "ENOENT") resolve(false);
      else reject(error);
    });
  });
}

function noDirectory(path: string): HoldfastError {
  return new HoldfastError({
    kind: "unavailable",
    reason: "LISTEN_FAILED",
    message: `cannot listen on unix://${path}: ${dirname(path)} does not exist; make it, or choose another path`,
    metadata: { address: `unix://${path}` },
  });
}

function inUse(path: string, why: string): HoldfastError {
  return new HoldfastError({
    kind: "precondition",
    reason: "ADDRESS_IN_USE",
    message: `${path} ${why}`,
    metadata: { path },
  });
}
