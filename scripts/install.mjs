// Brings node_modules to what package-lock.json says, and does nothing when it is there already.
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { modules, root } from "./paths.mjs";
import { Problem } from "./problem.mjs";
import { showProgress } from "./progress.mjs";
import { runChild } from "./run-child.mjs";

const networkErrors =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_SOCKET_TIMEOUT|FETCH_ERROR/;

/** Runs `npm ci` unless what is installed already equals the lock file. */
export async function installWhenStale() {
  const reason = staleReason();
  if (reason === undefined) return;
  console.error(`holdfast: installing dependencies (${reason}); the first time takes a minute or two`);
  const started = Date.now();
  let errors = "";
  const options = ["--loglevel=error", "--ignore-scripts", "--include=dev", "--include=optional"];
  const quiet = ["--no-audit", "--no-fund", "--no-update-notifier"];
  const end = showProgress("npm ci", installedSoFar());
  const exitCode = await npm(["ci", ...options, ...quiet], (chunk) => {
    process.stderr.write(chunk);
    errors = (errors + chunk).slice(-64_000);
  }).finally(end);
  if (exitCode !== 0) throw installProblem(exitCode, errors);
  console.error(`holdfast: dependencies installed in ${Math.round((Date.now() - started) / 1000)} s`);
}

function installProblem(exitCode, errors) {
  const network = networkErrors.exec(errors)?.[0];
  if (exitCode > 128) return new Problem("the installation was interrupted; run the same command again", exitCode);
  if (network !== undefined) {
    return new Problem(
      `the npm registry could not be reached (${network}). Check the network or the proxy (npm config get registry; npm config get proxy) and run the same command again.`,
    );
  }
  return new Problem(`npm ci ended with exit code ${exitCode}; its own message stands above`);
}

/** npm says nothing before its end. A package counts once its package.json is there. */
function installedSoFar() {
  const wanted = Object.entries(readPackages(path.join(root, "package-lock.json")))
    .filter(([place, { link, ...platform }]) => place.includes("node_modules/") && !link && isForHere(platform))
    .map(([place]) => path.join(root, place, "package.json"));
  return () => `${wanted.filter((file) => existsSync(file)).length} of ${wanted.length} packages`;
}

function isForHere({ os, cpu, libc }) {
  const takes = (wanted, here) => wanted === undefined || [wanted].flat().includes(here);
  const ownLibc = existsSync("/etc/alpine-release") ? "musl" : "glibc";
  return takes(os, process.platform) && takes(cpu, process.arch) && takes(libc, ownLibc);
}

/** The npm that called us, else the one on the PATH. */
async function npm(args, onStderr) {
  const called = process.env.npm_execpath;
  // Interrupted, npm takes long to tidy up what the next run removes anyway.
  const options = { stdio: ["inherit", "inherit", "pipe"], listen: { 2: onStderr }, graceMs: 1_000 };
  if (called?.endsWith(".js") && existsSync(called)) return runChild(process.execPath, [called, ...args], options);
  return runChild("npm", args, options).catch((error) => {
    if (error.code === "ENOENT")
      throw new Problem("npm is not on the PATH; install Node.js with npm and run the same command again");
    throw error;
  });
}

/**
 * npm writes node_modules/.package-lock.json as the last step of an installation, so that file is both the proof that
 * it was finished and the list of what is there. Comparing content, not times: git sets times as it likes.
 */
function staleReason() {
  const installedFile = path.join(modules, ".package-lock.json");
  if (!existsSync(installedFile)) return "node_modules is missing or incomplete";
  const wanted = readPackages(path.join(root, "package-lock.json"));
  const installed = readPackages(installedFile);
  for (const [place, { version, link, optional, peer }] of Object.entries(wanted)) {
    if (!place.startsWith("node_modules/")) continue;
    if (link) {
      if (!existsSync(path.join(root, place))) return `${place.slice(13)} is not linked`;
      continue;
    }
    const there = installed[place]?.version;
    // Optional packages are for some platforms only: missing is fine, another version is not.
    if (there !== version && !(there === undefined && (optional || peer)))
      return `${place.slice(13)} is ${there ?? "missing"}, not ${version}`;
  }
  return undefined;
}

function readPackages(file) {
  return JSON.parse(readFileSync(file, "utf8")).packages;
}
