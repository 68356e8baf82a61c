// Brings node_modules to what package-lock.json says, and does nothing when it is there already.
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { modules, root } from "./paths.mjs";
import { Problem } from "./problem.mjs";
import { runChild } from "./run-child.mjs";

const networkErrors =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_SOCKET_TIMEOUT|FETCH_ERROR/;

/** Runs `npm ci` unless what is installed already equals the lock file. */
export async function installWhenStale() {
  const reason = staleReason();
  if (reason === undefined) return;
  console.error(`holdfast: installing dependencies (${reason}); the first time takes about a minute`);
  const started = Date.now();
  let errors = "";
  const exitCode = await npm(
    ["ci", "--loglevel=error", "--ignore-scripts", "--include=dev", "--include=optional", "--no-audit", "--no-fund"],
    (chunk) => {
      process.stderr.write(chunk);
      errors = (errors + chunk).slice(-64_000);
    },
  );
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

/** The npm that called us, else the one on the PATH. */
function npm(args, onStderr) {
  const called = process.env.npm_execpath;
  // Interrupted, npm takes long to tidy up what the next run removes anyway.
  const options = { stdio: ["inherit", "inherit", "pipe"], onStderr, graceMs: 1_000 };
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
