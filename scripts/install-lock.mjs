// One preparation at a time per tree: two `npm ci` in one node_modules leave neither whole.
//
// The lock is a directory, because mkdir either makes it or fails; it lies outside node_modules, which `npm ci` removes.
// A lock whose owner is dead is taken over by renaming it away: of two that try, one rename succeeds.
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cache } from "./paths.mjs";
import { Problem } from "./problem.mjs";

const treeLock = path.join(cache, "prepare.lock");
const waitMs = 15 * 60_000;
/** mkdir and the write of the pid are two steps: a lock without an owner is stale only when it is this old. */
const ownerlessMs = 5_000;

/** Runs `prepare` while no other process prepares this tree. */
export async function withInstallLock(prepare, lock = treeLock) {
  await acquire(lock);
  const release = () => {
    if (readOwner(lock) === String(process.pid)) rmSync(lock, { recursive: true, force: true });
  };
  process.once("exit", release);
  try {
    return await prepare();
  } finally {
    process.off("exit", release);
    release();
  }
}

async function acquire(lock) {
  mkdirSync(path.dirname(lock), { recursive: true });
  const deadline = Date.now() + waitMs;
  for (let told = false; ; ) {
    try {
      mkdirSync(lock);
      writeFileSync(path.join(lock, "pid"), String(process.pid));
      return;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const owner = readOwner(lock);
    if (isStale(lock, owner)) {
      takeAway(lock, owner);
      continue;
    }
    if (!told) console.error(`holdfast: waiting for process ${owner ?? "?"}, which prepares this tree`);
    told = true;
    if (Date.now() > deadline) {
      throw new Problem(
        `process ${owner} has held ${lock} for 15 minutes; stop it, or remove that directory if it is gone`,
      );
    }
    await sleep(200);
  }
}

function readOwner(lock) {
  try {
    return readFileSync(path.join(lock, "pid"), "utf8") || undefined;
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

function isStale(lock, owner) {
  if (owner === undefined) {
    const made = statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
    return made !== undefined && Date.now() - made > ownerlessMs;
  }
  try {
    process.kill(Number(owner), 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

function takeAway(lock, owner) {
  const aside = `${lock}.${process.pid}`;
  try {
    renameSync(lock, aside);
  } catch (error) {
    if (error.code === "ENOENT") return;
    throw error;
  }
  // Between the look and the rename another process may have taken the lock over: then what was moved is live.
  const moved = readOwner(aside);
  if (owner !== undefined && moved !== owner) renameSync(aside, lock);
  else rmSync(aside, { recursive: true, force: true });
}
