/**
 * A host without IPv4: its network namespace has `::1` and an address of its own, and no address of the other family, not even on loopback.
 * Redis with TLS, controller, agent, command line, metrics, health checks and collectors of traces are reached by literals of IPv6.
 */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { startSimBackend, startSimPlugin } from "@holdfast/sim-plugin/processes";
import { expect, it, onTestFinished } from "vitest";
import { type ManagedProcess, type ProcessSpec, startProcess } from "../harness/managed-process.ts";
import { mountsUnder, persistently } from "../harness/scenario.ts";
import { createAuthority } from "../support/certificates.ts";
import { full } from "../support/full.ts";
import { durable } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: a network namespace needs root");

const repo = path.resolve(import.meta.dirname, "../..");
const own = "fd00::1";

/** Takes traces by both protocols, and writes a line for each. */
const collector = `
const heard = (how, what) => console.log(JSON.stringify({ message: how, what }));
require("node:http").createServer((request, response) => {
  heard("http", request.url);
  request.resume();
  response.writeHead(200, { "content-type": "application/json" }).end("{}");
}).listen(4318, "::1");
require("node:http2").createServer().on("stream", (stream, headers) => {
  heard("grpc", headers[":path"]);
  stream.resume();
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.end(Buffer.alloc(5));
}).listen(4317, "::1", () => heard("ready", ""));
`;

const ip = (...args: readonly string[]): void => {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
};

const makeHost = (): string => {
  const name = `hf-${randomBytes(3).toString("hex")}`;
  ip("netns", "add", name);
  onTestFinished(() => ip("netns", "delete", name));
  ip("-n", name, "link", "set", "lo", "up");
  ip("-n", name, "-4", "address", "flush", "dev", "lo");
  ip("-n", name, "address", "add", `${own}/128`, "dev", "lo", "nodad");
  return name;
};

const ready = (one: ManagedProcess): Promise<unknown> =>
  one.line(({ message }) => message === "ready", "its line `ready`");

it.runIf(full && root)("a host without IPv4 serves a claim from its enrolment to its release", async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf6-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }));
  const at = (...parts: readonly string[]): string => path.join(dir, ...parts);
  const netns = makeHost();
  expect(execFileSync("ip", ["-n", netns, "-4", "-o", "address"], { encoding: "utf8" }), "addresses of IPv4").toBe("");
  const start = (spec: Omit<ProcessSpec, "netns">): ManagedProcess => {
    const one = startProcess({ ...spec, netns });
    onTestFinished(async () => void (await one.kill("SIGTERM")));
    return one;
  };
  const run = async (command: ProcessSpec["command"], env: Readonly<Record<string, string>> = {}): Promise<string> => {
    const one = start({ name: command[0], command, env });
    const code = await one.exited();
    if (code !== 0) throw new Error(`${command.join(" ")} ended with ${code}: ${one.output()}`);
    return one.output();
  };
  const node = [process.execPath, "--no-warnings"] as const;
  const holdfast = (...args: readonly string[]) =>
    run([
      ...node,
      path.join(repo, "packages/cli/src/main.ts"),
      "--address",
      `[${own}]:7600`,
      "--certs",
      at("ada"),
      ...args,
    ]);
  const withoutController = (...args: readonly string[]) =>
    run([...node, path.join(repo, "packages/cli/src/main.ts"), ...args]);

  const names = await createAuthority(dir, "redis");
  const server = await names.issue("server", ["IP:::1"]);
  const client = await names.issue("client", ["DNS:client"]);
  await mkdir(at("redis"));
  const settings = {
    ...durable,
    ...{ dir: at("redis"), bind: "::1", port: "0", "tls-port": "6379" },
    ...{ "tls-ca-cert-file": names.cert, "tls-cert-file": server.cert, "tls-key-file": server.key },
  };
  start({
    name: "redis",
    command: ["redis-server", ...Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])],
  });
  const traces = start({ name: "collector", command: [...node, "-e", collector] });
  await ready(traces);

  await withoutController("ca", "init", "--trust-domain", "six.test", "--dir", at("ca"));
  await withoutController("ca", "issue", "controller/c-1", "--dir", at("ca"), "--out", at("c-1"));
  await withoutController("ca", "issue", "operator/ada", "--dir", at("ca"), "--out", at("ada"));

  for (const each of ["cp", "np", "m"]) await mkdir(at(each), { mode: 0o700 });
  const backend = await startSimBackend({ dir });
  onTestFinished(() => backend.stop().then(() => undefined));
  const half = { backend: backend.socketPath };
  const beside = await startSimPlugin({ ...half, dir: at("cp"), socket: at("cp", "sim.sock"), role: "controller" });
  onTestFinished(() => beside.stop().then(() => undefined));
  const onNode = await startSimPlugin({
    ...half,
    ...{ dir: at("np"), socket: at("np", "sim.sock"), role: "node", node: "node-a" },
    ...{ dataDir: at("data"), realMounts: true },
  });
  onTestFinished(() => onNode.stop().then(() => undefined));

  const controller = start({
    name: "controller",
    command: [...node, path.join(repo, "services/controller/src/main.ts")],
    env: {
      HOLDFAST_LISTEN: `[${own}]:7600`,
      HOLDFAST_AGENT_LISTEN: "[::]:7602",
      HOLDFAST_ADMIN_LISTEN: "[::1]:7601",
      HOLDFAST_STORE: "rediss://[::1]:6379",
      HOLDFAST_STORE_CA_FILE: names.cert,
      HOLDFAST_STORE_CERT_FILE: client.cert,
      HOLDFAST_STORE_KEY_FILE: client.key,
      HOLDFAST_STATE_DIR: at("c-state"),
      HOLDFAST_PLUGIN_DIR: at("cp"),
      HOLDFAST_TLS_DIR: at("c-1"),
      HOLDFAST_CA_DIR: at("ca", "issuing"),
      HOLDFAST_OTLP_ENDPOINT: "http://[::1]:4317",
    },
  });
  await ready(controller);

  const printed = await holdfast("node", "token", "node-a");
  const enrol = printed.split("\n").find((line) => line.startsWith("holdfast agent enrol")) ?? "";
  expect(enrol).toContain(`--controller [${own}]:7602`);
  const words = enrol.split(" ").slice(1);
  await withoutController(...words.map((word, i) => (words[i - 1] === "--out" ? at("n-1") : word)));
  const agent = start({
    name: "node-a",
    command: [...node, path.join(repo, "services/node-agent/src/main.ts")],
    env: {
      HOLDFAST_NODE: "node-a",
      HOLDFAST_CONTROLLERS: `[${own}]:7602`,
      HOLDFAST_ADMIN_LISTEN: "[::1]:7611",
      HOLDFAST_TLS_DIR: at("n-1"),
      HOLDFAST_STATE_DIR: at("n-state"),
      HOLDFAST_ROOT_DIR: at("m"),
      HOLDFAST_PLUGIN_DIR: at("np"),
      HOLDFAST_HOSTED_PLUGIN_DIR: at("h"),
      HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
      HOLDFAST_HOST_IDENTITY: "none",
      HOLDFAST_OTLP_ENDPOINT: "http://[::1]:4318",
      HOLDFAST_OTLP_PROTOCOL: "http",
    },
  });
  await ready(agent);
  // Until both halves of the plugin are known.
  await persistently("a volume", () =>
    holdfast("volume", "create", "data", "--plugin", "sim.holdfast.dev", "--size", "16Mi"),
  );
  await persistently("a claim", () => holdfast("claim", "create", "web-1", "data", "--node", "node-a"));
  expect(await mountsUnder(at("m"))).not.toEqual([]);

  // Both the literal and what stands for every address.
  const healthy = path.join(repo, "deploy/healthcheck.mjs");
  await run([...node, healthy], { HOLDFAST_ADMIN_LISTEN: "[::1]:7601" });
  await run([...node, healthy], { HOLDFAST_ADMIN_LISTEN: "[::]:7611" });
  const metrics = `fetch("http://[::1]:7611/metrics").then((a) => a.text()).then((t) => console.log(t))`;
  expect(await run([...node, "-e", metrics])).toContain('holdfast_claims{phase="published"} 1');
  await traces.line(({ message }) => message === "grpc", "a trace of the controller");
  await traces.line(({ message }) => message === "http", "a trace of the agent");

  await holdfast("claim", "release", "web-1");
  await holdfast("volume", "delete", "data");
  expect(await mountsUnder(at("m"))).toEqual([]);
  const { state, violations } = await backend.client.snapshot();
  expect({ violations, left: state.volumes.size }).toEqual({ violations: [], left: 0 });
});
