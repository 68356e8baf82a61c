// Programs that npm does not carry. Installed from Debian when that is possible, named with the cure when it is not.
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { cacheBin } from "./paths.mjs";
import { Problem } from "./problem.mjs";
import { runChild } from "./run-child.mjs";

/** program → the Debian package that has it, and what becomes of it here */
const needs = {
  // redis-tools, not redis-server: the server binary is in it (redis looks at its own name), and no daemon is set up
  // on the user's machine. The tests start their own servers.
  "redis-server": {
    package: "redis-tools",
    why: "the store is tested against a real Redis",
    afterInstall: linkRedisServer,
  },
  mount: { package: "mount", why: "volumes are really mounted" },
  unshare: { package: "util-linux", why: "mounts and networks are tried in namespaces of their own" },
  "mkfs.ext4": { package: "e2fsprogs", why: "block volumes carry a real filesystem" },
  "mkfs.xfs": { package: "xfsprogs", why: "volumes may ask for xfs" },
  ip: { package: "iproute2", why: "partitions are made with network namespaces" },
};

/** Makes sure that every program of the list can be run. */
export async function ensureSystemNeeds(programs) {
  const missing = programs.filter((program) => find(program) === undefined);
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map((program) => needs[program].package))];
  const list = missing.map((program) => `${program} (${needs[program].why})`).join(", ");
  if (process.getuid?.() !== 0 || find("apt-get") === undefined) {
    throw new Problem(
      `missing: ${list}. On Debian or Ubuntu: apt-get install ${packages.join(" ")}; elsewhere install them by hand.`,
    );
  }
  console.error(`holdfast: installing ${packages.join(", ")} from Debian: ${list}`);
  await aptGet(["update", "-qq"]);
  await aptGet(["install", "-qq", "-y", "--no-install-recommends", ...packages]);
  for (const program of missing) needs[program].afterInstall?.();
  const still = missing.filter((program) => find(program) === undefined);
  if (still.length > 0)
    throw new Problem(`apt-get installed ${packages.join(", ")}, yet ${still.join(", ")} cannot be found on the PATH`);
}

async function aptGet(args) {
  // Its standard output is package by package noise; what went wrong comes on standard error.
  const exitCode = await runChild("apt-get", args, {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (exitCode !== 0)
    throw new Problem(`apt-get ${args.join(" ")} ended with exit code ${exitCode}; is the Debian mirror reachable?`);
}

function find(program) {
  const folders = [cacheBin, ...(process.env.PATH ?? "").split(path.delimiter), "/usr/sbin", "/sbin"];
  return folders.map((folder) => path.join(folder, program)).find(isExecutable);
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function linkRedisServer() {
  const link = path.join(cacheBin, "redis-server");
  mkdirSync(cacheBin, { recursive: true });
  if (!existsSync(link)) symlinkSync("/usr/bin/redis-check-rdb", link);
  const answer = spawnSync(link, ["--version"], { encoding: "utf8" });
  if (!answer.stdout?.startsWith("Redis server"))
    throw new Problem("redis-tools of this system carries no server: apt-get install redis-server");
}
