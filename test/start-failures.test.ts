/**
 * Services that cannot start, as an operator meets them: one line of the log says why, which setting it is about and what to do, without a
 * stack; it is not said twice, and the exit code tells a supervisor whether to try again. The command line says it in words.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { asNobody, nobodyReadsTree } from "./support/as-nobody.ts";
import { childEnvironment } from "./support/child-environment.ts";
import { full } from "./support/full.ts";
import { startRedisServer } from "./support/redis-server.ts";

const repo = path.resolve(import.meta.dirname, "..");

/** Where a case happens; each has a directory of its own. */
interface Place {
  readonly dir: string;
  /** A port on which another process listens. */
  readonly busy: string;
}

interface Service {
  readonly main: string;
  readonly args?: (place: Place) => readonly string[];
  readonly env: (place: Place) => Readonly<Record<string, string>>;
}

const services = {
  controller: {
    main: "services/controller/src/main.ts",
    env: ({ dir }) => ({
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: `${dir}/state`,
      HOLDFAST_PLUGIN_DIR: `${dir}/plugins`,
    }),
  },
  "node-agent": {
    main: "services/node-agent/src/main.ts",
    env: ({ dir }) => ({
      HOLDFAST_NODE: "node-a",
      HOLDFAST_CONTROLLERS: "127.0.0.1:1",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: `${dir}/state`,
      HOLDFAST_ROOT_DIR: `${dir}/root`,
      HOLDFAST_PLUGIN_DIR: `${dir}/plugins`,
      HOLDFAST_HOSTED_PLUGIN_DIR: `${dir}/hosted`,
      HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
    }),
  },
  "local-driver": {
    main: "packages/local-driver/src/main.ts",
    env: ({ dir }) => ({
      HOLDFAST_LOCAL_TYPES: "directory",
      HOLDFAST_LOCAL_SOCKET: `${dir}/a.sock`,
      HOLDFAST_LOCAL_STATE_DIR: `${dir}/state`,
      HOLDFAST_LOCAL_NODE_ID: "node-a",
    }),
  },
  "sim-plugin": {
    main: "packages/sim-plugin/src/plugin-main.ts",
    args: ({ dir }) => ["--role", "node", "--socket", `${dir}/s.sock`, "--backend", `${dir}/backend.sock`],
    env: () => ({}),
  },
} as const satisfies Readonly<Record<string, Service>>;

type Name = keyof typeof services;

interface Given {
  readonly env?: Readonly<Record<string, string>>;
  readonly undo?: () => Promise<unknown> | unknown;
}

interface Case {
  readonly service: Name;
  readonly what: string;
  readonly env?: (place: Place) => Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  /** Before the start: what else is set then, and what is undone behind it. */
  readonly given?: (place: Place) => Promise<Given | undefined>;
  readonly as?: readonly string[];
  readonly tree?: "without generated code";
  readonly reason: string;
  readonly code?: string;
  readonly settings?: readonly string[];
  readonly exit: number;
  readonly says?: RegExp;
  /** In npm test too; the others are in npm run test:full. */
  readonly quick?: true;
}

const state = (service: Name): string =>
  service === "local-driver" ? "HOLDFAST_LOCAL_STATE_DIR" : "HOLDFAST_STATE_DIR";
const threeServices = ["controller", "node-agent", "local-driver"] as const;

/** Holds the lock of the state directory, as a service that runs does. */
const lockedState = async ({ dir }: Place): Promise<Given> => {
  await mkdir(`${dir}/state`, { mode: 0o700 });
  const holder = spawn("flock", ["--exclusive", `${dir}/state`, "sh", "-c", "echo held; exec sleep 600"], {
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  await once(holder.stdout, "data");
  const undo = async (): Promise<void> => {
    process.kill(-(holder.pid ?? 0), "SIGKILL");
    await once(holder, "close");
  };
  return { undo };
};

const withRedis = async (
  config: Readonly<Record<string, string>>,
  address: (port: number) => string,
): Promise<Given> => {
  const redis = await startRedisServer(config);
  return { env: { HOLDFAST_STORE: address(redis.port) }, undo: redis.stop };
};

/** Answers what a connection asks first as a Redis would that is too old: it has no functions. */
const oldRedis = async (): Promise<Given> => {
  const info = "redis_version:5.0.7\r\nrun_id:0123456789\r\nrole:master\r\ncluster_enabled:0\r\n";
  const answers: Readonly<Record<string, string>> = { INFO: `$${info.length}\r\n${info}\r\n`, CONFIG: "*0\r\n" };
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      for (const [, name = ""] of chunk.toString("latin1").matchAll(/\*\d+\r\n\$\d+\r\n([^\r]*)\r\n/g))
        socket.write(answers[name.toUpperCase()] ?? `-ERR unknown command \`${name}\`\r\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { env: { HOLDFAST_STORE: `redis://127.0.0.1:${port}` }, undo: () => void server.close() };
};

const cases: readonly Case[] = [
  ...threeServices.map(
    (service): Case => ({
      service,
      what: "a setting that is none, and a bad value",
      env: () => ({ HOLDFAST_LOG_LEVEL: "loud", HOLDFAST_NONSENSE: "1" }),
      reason: "CONFIG_INVALID",
      settings: ["HOLDFAST_NONSENSE", "HOLDFAST_LOG_LEVEL"],
      exit: 78,
      quick: true,
    }),
  ),
  ...threeServices.map(
    (service): Case => ({
      service,
      what: "a state directory below a file",
      given: async ({ dir }) => void (await writeFile(`${dir}/file`, "")),
      env: ({ dir }) => ({ [state(service)]: `${dir}/file/state` }),
      reason: "START_FAILED",
      code: "ENOTDIR",
      settings: [state(service)],
      exit: 70,
    }),
  ),
  ...threeServices.map(
    (service): Case => ({
      service,
      what: "a state directory that another process has",
      given: lockedState,
      reason: "STATE_DIR_IN_USE",
      settings: [state(service)],
      exit: 70,
      ...(service === "node-agent" ? { quick: true } : {}),
    }),
  ),
  ...threeServices.map(
    (service): Case => ({
      service,
      what: "no right to the state directory",
      as: asNobody,
      given: async ({ dir }) => void (await mkdir(`${dir}/mine`, { mode: 0o700 })),
      env: ({ dir }) => ({ [state(service)]: `${dir}/mine/state` }),
      reason: "START_FAILED",
      code: "EACCES",
      settings: [state(service)],
      exit: 70,
    }),
  ),
  ...threeServices.map(
    (service): Case => ({
      service,
      what: "an admin port that is in use",
      env: ({ busy }) => ({ HOLDFAST_ADMIN_LISTEN: busy }),
      reason: "LISTEN_FAILED",
      settings: ["HOLDFAST_ADMIN_LISTEN"],
      exit: 70,
    }),
  ),
  {
    service: "controller",
    what: "a port of the API that is in use",
    env: ({ busy }) => ({ HOLDFAST_LISTEN: busy }),
    reason: "LISTEN_FAILED",
    settings: ["HOLDFAST_LISTEN"],
    exit: 70,
    quick: true,
  },
  {
    service: "controller",
    what: "an address that everybody reaches",
    env: () => ({ HOLDFAST_LISTEN: "0.0.0.0:0" }),
    reason: "INSECURE_ADDRESS",
    settings: ["HOLDFAST_LISTEN"],
    exit: 78,
  },
  ...(["controller", "node-agent"] as const).map(
    (service): Case => ({
      service,
      what: "a certificate that is not there",
      env: ({ dir }) => ({ HOLDFAST_TLS_DIR: `${dir}/certificates` }),
      reason: "CONFIG_INVALID",
      settings: ["HOLDFAST_TLS_DIR"],
      exit: 78,
    }),
  ),
  {
    service: "node-agent",
    what: "no machine id",
    env: ({ dir }) => ({ HOLDFAST_MACHINE_ID_FILE: `${dir}/none` }),
    reason: "CONFIG_INVALID",
    settings: ["HOLDFAST_MACHINE_ID_FILE"],
    exit: 78,
  },
  {
    service: "controller",
    what: "a Redis that is not there",
    env: () => ({ HOLDFAST_STORE: "redis://127.0.0.1:1" }),
    reason: "STORE_UNAVAILABLE",
    settings: ["HOLDFAST_STORE"],
    exit: 70,
    says: /127\.0\.0\.1:1/,
  },
  {
    service: "controller",
    what: "a wrong password of Redis",
    given: () => withRedis({}, (port) => `redis://ghost:wrong@127.0.0.1:${port}`),
    reason: "STORE_UNAVAILABLE",
    settings: ["HOLDFAST_STORE"],
    exit: 70,
    says: /WRONGPASS/,
  },
  {
    service: "controller",
    what: "a Redis that may forget",
    given: () => withRedis({ appendonly: "no" }, (port) => `redis://127.0.0.1:${port}`),
    reason: "STORE_VOLATILE",
    settings: ["HOLDFAST_STORE"],
    exit: 78,
    says: /appendonly/,
  },
  {
    service: "controller",
    what: "a Redis that is too old",
    given: oldRedis,
    reason: "STORE_TOO_OLD",
    settings: ["HOLDFAST_STORE"],
    exit: 78,
    says: /5\.0\.7/,
  },
  {
    service: "local-driver",
    what: "a directory of somebody else",
    given: async ({ dir }) => {
      await mkdir(`${dir}/state`);
      await writeFile(`${dir}/state/photo.jpg`, "");
      return undefined;
    },
    reason: "START_FAILED",
    exit: 70,
    says: /photo\.jpg/,
  },
  {
    service: "local-driver",
    what: "a socket in a directory that is missing",
    env: ({ dir }) => ({ HOLDFAST_LOCAL_SOCKET: `${dir}/none/a.sock` }),
    reason: "LISTEN_FAILED",
    settings: ["HOLDFAST_LOCAL_SOCKET"],
    exit: 70,
  },
  {
    service: "sim-plugin",
    what: "options that are missing",
    args: [],
    reason: "CONFIG_INVALID",
    settings: ["--role", "--socket", "--backend"],
    exit: 78,
  },
  {
    service: "sim-plugin",
    what: "a storage that is not there",
    reason: "START_FAILED",
    exit: 70,
    says: /no backend at/,
  },
  ...threeServices.map(
    (service): Case => ({
      service,
      what: "no generated code",
      tree: "without generated code",
      reason: "GENERATED_CODE_MISSING",
      exit: 78,
      ...(service === "controller" ? { quick: true } : {}),
    }),
  ),
];

/** The sources as a clone has them after npm ci: what is generated is missing. */
const treeWithoutGenerated = async (at: string): Promise<string> => {
  await mkdir(path.join(at, "node_modules"), { recursive: true });
  const own = path.join(repo, "node_modules");
  for (const name of await readdir(own))
    if (name !== "@holdfast") await symlink(path.join(own, name), path.join(at, "node_modules", name));
  for (const name of ["packages", "services", "scripts", "package.json"])
    await cp(path.join(repo, name), path.join(at, name), {
      recursive: true,
      filter: (file) => !/\/(gen|node_modules|testing)$|\.test\.ts$/.test(file),
    });
  await cp(path.join(own, "@holdfast"), path.join(at, "node_modules/@holdfast"), {
    recursive: true,
    verbatimSymlinks: true,
  });
  return at;
};

const run = async (command: readonly string[], env: Readonly<Record<string, string>>) => {
  const [file = "", ...args] = command;
  const child = spawn(file, args, { env: { ...childEnvironment(), ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const parts: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (part: Buffer) => parts.push(part.toString()));
  const late = setTimeout(() => child.kill("SIGKILL"), 80_000);
  const [exit, signal] = (await once(child, "close")) as [number | null, string | null];
  clearTimeout(late);
  return { exit: exit ?? signal, output: parts.join("") };
};

let dir: string;
let busy: Server;
let bare: Promise<string> | undefined;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-start-"));
  busy = createServer();
  await new Promise<void>((resolve) => busy.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  busy?.close();
  await rm(dir ?? "/nonexistent", { recursive: true, force: true });
});

const bareTree = (): Promise<string> => {
  bare ??= treeWithoutGenerated(path.join(dir, "tree"));
  return bare;
};

const placeOf = async (): Promise<Place> => {
  const place = { dir: await mkdtemp(path.join(dir, "c-")), busy: `127.0.0.1:${(busy.address() as AddressInfo).port}` };
  for (const name of ["plugins", "root", "hosted"]) await mkdir(`${place.dir}/${name}`, { mode: 0o700 });
  return place;
};

const chosen = cases.filter(({ quick, as }) => (full || quick === true) && (as === undefined || nobodyReadsTree));

describe.each(chosen)("$service: $what", (one) => {
  test(`ends with ${one.exit} and one line`, async () => {
    const service: Service = services[one.service];
    const place = await placeOf();
    const given = await one.given?.(place);
    const tree = one.tree === undefined ? repo : await bareTree();
    const args = one.args ?? service.args?.(place) ?? [];
    const env = { ...service.env(place), ...one.env?.(place), ...given?.env };
    const { exit, output } = await run(
      [...(one.as ?? []), process.execPath, path.join(tree, service.main), ...args],
      env,
    );
    await given?.undo?.();
    const lines = output.trimEnd().split("\n");
    const errors = lines.filter((line) => line.includes('"level":"error"'));
    expect(output).not.toContain("    at ");
    expect(
      lines.filter((line) => !line.startsWith("{")),
      output,
    ).toEqual([]);
    expect(errors.length, output).toBe(1);
    const said = JSON.parse(errors[0] ?? "{}") as Readonly<Record<string, unknown>>;
    expect({ exit, ...said }, output).toMatchObject({
      exit: one.exit,
      service: one.service,
      reason: one.reason,
      exit_code: one.exit,
      ...(one.code === undefined ? {} : { code: one.code }),
      ...(one.settings === undefined ? {} : { settings: one.settings }),
      cure: expect.stringMatching(/\w/),
      message: expect.stringMatching(one.says ?? /the service does not start: \S/),
    });
  });
});

describe("holdfast, the command line", () => {
  const cli = async (env: Readonly<Record<string, string>>, tree = repo) =>
    await run([process.execPath, path.join(tree, "packages/cli/bin/holdfast.mjs"), "volume", "list"], {
      HOME: path.join(dir, "nowhere"),
      ...env,
    });

  test.each([
    ["a bad setting", { HOLDFAST_TIMEOUT: "soon" }, 2, "timeout"],
    ["a config file that is not there", { HOLDFAST_CONFIG: "/nonexistent/config" }, 2, "/nonexistent/config"],
    ["a certificate that is not there", { HOLDFAST_CERTS: "/nonexistent/tls" }, 2, "/nonexistent/tls"],
    ["a controller that is not there", { HOLDFAST_ADDRESS: "127.0.0.1:1", HOLDFAST_TIMEOUT: "2s" }, 5, "127.0.0.1:1"],
  ])("%s: one failure in words, without a stack", async (_what, env, code, says) => {
    const { exit, output } = await cli(env);
    expect(exit, output).toBe(code);
    expect(output).toContain(says);
    expect(output).not.toContain("    at ");
    expect(output.match(/^holdfast: /gm)).toHaveLength(1);
  });

  test.runIf(full)("no generated code: says what makes it", async () => {
    const { exit, output } = await cli({}, await bareTree());
    expect(exit, output).toBe(2);
    expect(output).toMatch(/^holdfast: the generated code is missing; .*npm run generate\)\n$/);
  });
});
