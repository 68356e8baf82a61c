// Programs and libraries that npm does not carry. Installed from Debian when that is possible, named with the cure when it is not.
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { missingLibrary } from "./dev-node.mjs";
import { cacheBin } from "./paths.mjs";
import { Problem } from "./problem.mjs";
import { showProgress } from "./progress.mjs";
import { runChild } from "./run-child.mjs";

/** program or library → the Debian package that has it, and what becomes of it here */
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
  curl: { package: "curl", why: "Nomad's volume plugin speaks to the agent by it" },
  ip: { package: "iproute2", why: "partitions are made with network namespaces" },
  openssl: { package: "openssl", why: "certificates are checked against those of another maker" },
  xz: { package: "xz-utils", why: "the source of a driver comes in such an archive" },
};

/** What the packaged Node is linked with, and a small system lacks; a library counts as found when the loader does not miss it. */
const libraries = {
  "libatomic.so.1": "libatomic1",
  "libstdc++.so.6": "libstdc++6",
  "libgcc_s.so.1": "libgcc-s1",
};

/** Makes sure that the packaged Node starts, and that every program of the list can be run. */
export async function ensureSystemNeeds(programs) {
  const wanted = new Set();
  // The loader names one library at a time: a second one is asked for when the first is there.
  for (let missing = missingNow(programs); missing.length > 0; missing = missingNow(programs)) {
    const again = missing.filter(({ name }) => wanted.has(name)).map(({ name }) => name);
    if (again.length > 0) throw new Problem(`apt-get installed what has ${again.join(", ")}, yet it cannot be found`);
    for (const { name } of missing) wanted.add(name);
    await install(missing);
  }
}

function missingNow(programs) {
  const library = missingLibrary();
  return [
    ...(library === undefined ? [] : [libraryNeed(library)]),
    ...programs.filter((program) => find(program) === undefined).map((name) => ({ name, ...needs[name] })),
  ];
}

function libraryNeed(name) {
  if (libraries[name] === undefined)
    throw new Problem(
      `the packaged Node needs the library ${name}, which this system lacks. Install the package that has it, or Node 24 or newer, and run the same command again.`,
    );
  return { name, package: libraries[name], why: "Node 26 is linked with it" };
}

async function install(missing) {
  const packages = [...new Set(missing.map((need) => need.package))];
  const list = missing.map(({ name, why }) => `${name} (${why})`).join(", ");
  if (process.getuid?.() !== 0 || find("apt-get") === undefined) {
    throw new Problem(
      `missing: ${list}. On Debian or Ubuntu, as root: apt-get install ${packages.join(" ")}; elsewhere install them by hand. Then run the same command again.`,
    );
  }
  console.error(`holdfast: installing ${packages.join(", ")} from Debian: ${list}`);
  await aptGet(["update", "-qq"]);
  await aptGet(["install", "-qq", "-y", "--no-install-recommends", ...packages]);
  for (const { afterInstall } of missing) afterInstall?.();
}

async function aptGet(args) {
  let status = "";
  const end = showProgress(`apt-get ${args[0]}`, () => percentOf(status));
  // Its standard output is package by package noise; what went wrong comes on standard error, how far it is on descriptor 3.
  const exitCode = await runChild("apt-get", ["-o", "APT::Status-Fd=3", "-o", "DPkg::Lock::Timeout=60", ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", DEBCONF_NOWARNINGS: "yes" },
    stdio: ["ignore", "ignore", "inherit", "pipe"],
    listen: {
      3: (chunk) => {
        status = (status + chunk).slice(-4_000);
      },
    },
  }).finally(end);
  if (exitCode !== 0)
    throw new Problem(`apt-get ${args.join(" ")} ended with exit code ${exitCode}; is the Debian mirror reachable?`);
}

/** The newest line of `dlstatus:1:45.5:Retrieving…` (fetched) or `pmstatus:xfsprogs:20.0:Unpacking…` (installed). */
export function percentOf(status) {
  const [kind, percent] = [...status.matchAll(/^(dl|pm)status:.*?:(\d+)[.\d]*:/gm)].at(-1)?.slice(1) ?? [];
  return kind === undefined ? undefined : `${percent} % ${kind === "dl" ? "fetched" : "installed"}`;
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
