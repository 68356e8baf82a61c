/** Faults planted for real, found by `holdfast doctor`, each with its cure. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { backupName } from "@holdfast/controller/backup/backup-name";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import type { Finding } from "@holdfast/shared/doctor/finding";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { fileWriter, makeVolume } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { nobodyReadsTree } from "../support/as-nobody.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";
import { tokenKeyLine } from "../support/token-keys.ts";
import { type CliOptions, cliRun } from "./cli-run.ts";
import { createGolden } from "./golden.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: namespaces and users need root");

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-doc-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

type Env = Readonly<Record<string, string>>;
const envFile = (env: Env): string =>
  Object.entries(env)
    .map(([name, value]) => `${name}="${value}"\n`)
    .join("");

const examined = async (
  service: "controller" | "agent",
  env: Env,
  options: CliOptions = {},
): Promise<readonly Finding[]> => {
  const files = { "/etc/holdfast/service.env": envFile(env) };
  const args = ["doctor", "--no-cell", `--${service}-env`, "/etc/holdfast/service.env", "--json"];
  const { out, err } = await cliRun(args, { files, ...options });
  if (out === "") throw new Error(err);
  return (JSON.parse(out) as { findings: readonly Finding[] }).findings;
};

const expectFound = (findings: readonly Finding[], id: string): Finding => {
  const found = findings.find((finding) => finding.id === id && finding.level !== "ok");
  expect(found, `${id} in ${JSON.stringify(findings)}`).toBeDefined();
  expect(found?.cure).not.toBe("");
  return found as Finding;
};

let serial = 0;
const folder = (): string => {
  serial += 1;
  const made = path.join(dir, `d${serial}`);
  mkdirSync(made, { mode: 0o700 });
  return made;
};

/** A socket whose plugin has ended without taking it away. */
const staleSocket = async (into: string): Promise<void> => {
  const server = net.createServer();
  const socket = path.join(into, "dead.sock");
  await new Promise<void>((resolve) => server.listen(`${socket}.new`, resolve));
  const { renameSync } = await import("node:fs");
  renameSync(`${socket}.new`, socket);
  await new Promise((resolve) => server.close(resolve));
};

describe.skipIf(!root)("a controller's settings", () => {
  const controller = (more: Env = {}): Env => ({
    HOLDFAST_STATE_DIR: folder(),
    HOLDFAST_PLUGIN_DIR: folder(),
    ...more,
  });

  test("that are good have no fault", async () => {
    const findings = await examined("controller", controller());
    expect(findings.filter(({ level }) => level === "fault")).toEqual([]);
    expect(findings.find(({ id }) => id === "node-namespaces")?.message).toContain("every namespace");
  });

  test("settings: every mistake", async () => {
    const findings = await examined("controller", controller({ HOLDFAST_LISTEN: "nowhere", HOLDFAST_STOR: "x" }));
    expect(findings.map(({ id }) => id)).toEqual(["settings", "settings"]);
    const files = { "bad.env": "HOLDFAST_LISTEN=nowhere\n# a remark\nHOLDFAST_STOR='x'\n" };
    const run = (args: string) => cliRun(args.split(" "), { files });
    await createGolden(run)("doctor", "doctor --no-cell --controller-env bad.env", 1);
  });

  test("insecure, state-lost, plugin-dir, no-plugin, stale-socket, secret-keys", async () => {
    const plugins = folder();
    await staleSocket(plugins);
    const keys = path.join(folder(), "keys");
    writeFileSync(keys, `k1 ${Buffer.alloc(32, 7).toString("base64")}\n`);
    chmodSync(keys, 0o644);
    const findings = await examined("controller", {
      HOLDFAST_STATE_DIR: "/dev/shm/holdfast-doctor",
      HOLDFAST_PLUGIN_DIR: plugins,
      HOLDFAST_LISTEN: "0.0.0.0:7600",
      HOLDFAST_SECRET_KEYS: keys,
    });
    expect(expectFound(findings, "insecure").subject).toBe("0.0.0.0:7600");
    const open = await examined("controller", controller({ HOLDFAST_AGENT_LISTEN: "0.0.0.0:7602" }));
    expect(expectFound(open, "insecure").subject).toBe("0.0.0.0:7602");
    expectFound(findings, "state-lost");
    expect(expectFound(findings, "stale-socket").subject).toContain("dead.sock");
    expect(expectFound(findings, "secret-keys").message).toContain("chmod 600");
    expectFound(
      await examined("controller", controller({ HOLDFAST_PLUGIN_DIR: "/nonexistent/plugins" })),
      "plugin-dir",
    );
    expectFound(await examined("controller", controller()), "no-plugin");
  });

  test("token-keys: a key that is none, and no word of who issues", async () => {
    const keys = path.join(folder(), "keys");
    writeFileSync(keys, "k1 bm9uZQ==\n", { mode: 0o600 });
    const issuer = { HOLDFAST_TOKEN_ISSUER: "https://tokens.example.com" };
    const bad = await examined("controller", controller({ HOLDFAST_TOKEN_KEYS: keys, ...issuer }));
    expect(expectFound(bad, "token-keys").message).toContain("line 1 of key file");
    const nobody = await examined("controller", controller({ HOLDFAST_TOKEN_KEYS: keys }));
    expect(expectFound(nobody, "token-keys").message).toContain("HOLDFAST_TOKEN_ISSUER");
    writeFileSync(keys, `${tokenKeyLine("k1")}\n`);
    const well = await examined("controller", controller({ HOLDFAST_TOKEN_KEYS: keys, ...issuer }));
    expect(well.find(({ id }) => id === "token-keys")?.level).toBe("ok");
  });

  test("secret-root: one that would open the controller's own files, and one that is not there", async () => {
    const env = controller();
    const open = await examined("controller", { ...env, HOLDFAST_SECRET_FILES: `own=${env["HOLDFAST_STATE_DIR"]}` });
    expect(expectFound(open, "secret-root").message).toContain("HOLDFAST_STATE_DIR");
    const gone = await examined("controller", { ...env, HOLDFAST_SECRET_FILES: "gone=/nonexistent/secrets" });
    expect(expectFound(gone, "secret-root").message).toContain("is not there");
  });

  test("backup-none, backup-dir, backup-late: of backups by themselves", async () => {
    expect(expectFound(await examined("controller", controller()), "backup-none").level).toBe("warning");
    const backup = folder();
    const env = controller({ HOLDFAST_BACKUP: backup, HOLDFAST_BACKUP_INTERVAL: "30m", HOLDFAST_CELL: "default" });
    const gone = await examined("controller", { ...env, HOLDFAST_BACKUP: "/nonexistent/backup" });
    expect(expectFound(gone, "backup-dir").level).toBe("fault");
    expect(expectFound(await examined("controller", env), "backup-late").message).toContain(
      "no backup of cell default",
    );
    const owner = { cell: "default", controllerId: "ctl-a", clusterUid: "0b54aaaa-1111" };
    const madeBefore = (minutes: number, of = owner) =>
      writeFileSync(path.join(backup, backupName(of, Date.now() - minutes * 60_000)), "");
    madeBefore(1, { ...owner, cell: "another" });
    madeBefore(70);
    const late = expectFound(await examined("controller", env), "backup-late");
    expect(late.message).toMatch(/the last of 1 backups of cell default is 70 minutes old/);
    madeBefore(60);
    const [fine] = (await examined("controller", env)).filter(({ id }) => id.startsWith("backup"));
    expect(fine).toMatchObject({ id: "backup", level: "ok", subject: backup });
  });

  test.runIf(nobodyReadsTree)("state-dir: one that this user cannot write", async () => {
    const stateDir = folder();
    const around = () => ["setpriv", "--reuid", "65534", "--clear-groups"];
    expectFound(
      await examined("controller", { HOLDFAST_STATE_DIR: stateDir, HOLDFAST_PLUGIN_DIR: folder() }, { around }),
      "state-dir",
    );
  });

  test.runIf(nobodyReadsTree)("socket-forbidden: a plugin's socket of another user", async () => {
    const plugins = folder();
    chmodSync(dir, 0o755);
    chmodSync(plugins, 0o755);
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(path.join(plugins, "a.sock"), resolve));
    onTestFinished(() => void server.close());
    chmodSync(path.join(plugins, "a.sock"), 0o600);
    const around = () => ["setpriv", "--reuid", "65534", "--clear-groups"];
    expectFound(
      await examined("controller", { HOLDFAST_STATE_DIR: folder(), HOLDFAST_PLUGIN_DIR: plugins }, { around }),
      "socket-forbidden",
    );
  });

  describe("with Redis", () => {
    const servers: RedisServer[] = [];
    const redis = async (config: Env = {}): Promise<RedisServer> => {
      const server = await startRedisServer(config);
      servers.push(server);
      return server;
    };
    afterEach(async () => {
      for (const server of servers.splice(0)) await server.stop();
    });
    test("store-unreachable", async () => {
      expectFound(
        await examined("controller", controller({ HOLDFAST_STORE: "redis://127.0.0.1:1" })),
        "store-unreachable",
      );
    });

    test("store-login", async () => {
      const server = await redis();
      const url = new URL(await server.addUser("known", ["+@all", "~*"]));
      url.password = "wrong";
      expectFound(await examined("controller", controller({ HOLDFAST_STORE: url.href })), "store-login");
    });

    test("store-library: nobody has migrated", async () => {
      expectFound(await examined("controller", controller({ HOLDFAST_STORE: (await redis()).url })), "store-library");
    });

    describe("that has the library", () => {
      let server: RedisServer;
      let env: Env;
      beforeAll(async () => {
        server = await startRedisServer();
        env = controller({ HOLDFAST_STORE: server.url });
        const { code, err } = await cliRun(["migrate"], { env });
        expect(code, err).toBe(0);
      });
      afterAll(() => server?.stop());

      test("a good one has no fault", async () => {
        expect((await examined("controller", env)).filter(({ level }) => level === "fault")).toEqual([]);
      });

      test("store-acl: a user who may not do what a controller does, with the rule to paste", async () => {
        const url = await server.addUser("weak", ["+info", "+fcall_ro", "+time", "~*"]);
        expect(expectFound(await examined("controller", { ...env, HOLDFAST_STORE: url }), "store-acl").cure).toContain(
          "ACL SETUSER",
        );
      });

      test("store-volatile: each setting with its cure", async () => {
        const admin = await server.admin();
        const set = async (appendonly: string, policy: string): Promise<void> => {
          await admin.call("CONFIG", "SET", "appendonly", appendonly);
          await admin.call("CONFIG", "SET", "maxmemory-policy", policy);
        };
        onTestFinished(() => set("yes", "noeviction"));
        await set("no", "allkeys-lru");
        const findings = (await examined("controller", env)).filter(({ id }) => id === "store-volatile");
        expect(findings.length).toBeGreaterThanOrEqual(2);
        expect(findings.map(({ cure }) => cure).join("\n")).toContain("CONFIG SET appendonly yes");
      });

      // The last one: nothing is left of the store after it.
      test("store-foreign: flushed behind the controller's back", async () => {
        await (await server.admin()).call("FLUSHALL");
        expectFound(await examined("controller", env), "store-foreign");
      });
    });
  });
});

describe.skipIf(!root)("an agent's host", () => {
  const agent = (more: Env = {}): Env => ({
    HOLDFAST_NODE: "node-a",
    HOLDFAST_STATE_DIR: folder(),
    HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
    HOLDFAST_ROOT_DIR: folder(),
    HOLDFAST_PLUGIN_DIR: folder(),
    HOLDFAST_CONTROLLERS: "127.0.0.1:1",
    PATH: process.env["PATH"] ?? "",
    ...more,
  });

  test("controller-unreachable", async () => {
    expectFound(await examined("agent", agent()), "controller-unreachable");
  });

  test("mount-propagation: a private mount namespace, as a container without rshared has", async () => {
    const around = () => ["unshare", "--mount", "--propagation", "private"];
    expect(expectFound(await examined("agent", agent(), { around }), "mount-propagation").cure).toContain("rshared");
  });

  test("host-path: another directory at the same path, as in a container without the bind mount", async () => {
    const env = agent();
    // Process 1 of a PID namespace stands for the host's, so that it can be looked at wherever this runs.
    const inner = `unshare --mount sh -c 'mount -t tmpfs none ${env["HOLDFAST_ROOT_DIR"]} && exec "$@"' sh "$@"; exit $?`;
    const around = () => ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", inner, "sh"];
    expectFound(await examined("agent", env, { around }), "host-path");
  });

  test.runIf(nobodyReadsTree)("mount-namespaces: the host's processes are out of sight", async () => {
    const around = () => ["setpriv", "--reuid", "65534", "--clear-groups"];
    const findings = await examined("agent", agent(), { around });
    expectFound(findings, "mount-namespaces");
    expectFound(findings, "host-view");
  });

  test("rights: no CAP_SYS_ADMIN", async () => {
    const around = () => ["setpriv", "--bounding-set", "-sys_admin"];
    expect(expectFound(await examined("agent", agent(), { around }), "rights").message).toContain("CAP_SYS_ADMIN");
  });

  test("host-identity: nothing tells a boot of the host from a clone of it", async () => {
    const found = async (identity: string) =>
      (await examined("agent", agent({ HOLDFAST_HOST_IDENTITY: identity }))).find(({ id }) => id === "host-identity");
    expect(await found("none")).toMatchObject({
      level: "warning",
      cure: expect.stringContaining("HOLDFAST_HOST_IDENTITY"),
    });
    expect(await found("a-host")).toMatchObject({ level: "ok" });
  });

  test("programs: no mount", async () => {
    expectFound(await examined("agent", agent({ PATH: "/nonexistent" })), "programs");
  });

  test("journal-damaged and journal-copied", async () => {
    const cluster = await startCluster({ nodes: ["node-a"] });
    onTestFinished(() => cluster.stop());
    const { stateDir } = cluster.node("node-a");
    await cluster.node("node-a").agent().kill("SIGTERM");
    const file = path.join(stateDir, "journal");
    const bytes = readFileSync(file);
    const good = await examined("agent", agent({ HOLDFAST_STATE_DIR: stateDir }));
    expect(good.find(({ id }) => id === "journal")?.level).toBe("ok");
    const [, second = ""] = bytes.toString().split("\n");
    writeFileSync(file, `${bytes.toString().replace(second, `${second.slice(0, 12)}#${second.slice(13)}`)}${second}\n`);
    expectFound(await examined("agent", agent({ HOLDFAST_STATE_DIR: stateDir })), "journal-damaged");
  });
});

describe.skipIf(!root)("a cell", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a", "node-b"],
      controllerEnv: { HOLDFAST_LINK_GRACE: "300ms" },
    });
  });
  afterAll(() => cluster?.stop());
  const run = (args: string, options: CliOptions = {}) =>
    cliRun(args.split(" "), { address: cluster.address, ...options });
  const findings = async (): Promise<readonly Finding[]> =>
    (JSON.parse((await run("doctor --json")).out) as { findings: readonly Finding[] }).findings;

  test("that is well, and a controller that is not there", async () => {
    expect((await findings()).filter(({ level }) => level === "fault")).toEqual([]);
    expect((await run("doctor", { address: "127.0.0.1:1" })).out).toContain("controller-unreachable");
  });

  test("stuck: a mount that is not seen", async () => {
    await makeVolume(cluster, "lost", fileWriter);
    await cluster.claims.createClaims({
      namespace: "test",
      workload: "w",
      node: "node-a",
      claims: [{ volume: "lost" }],
    });
    const found = await until("the claim to be blocked", async () =>
      (await findings()).find(({ id }) => id === "stuck"),
    );
    expect([found.subject, found.cure === ""]).toEqual(["test/lost of w", false]);
  });

  test("clock-skew: this host's clock is a minute behind the controller's, or a minute ahead", async () => {
    const agent = {
      HOLDFAST_NODE: "node-a",
      HOLDFAST_STATE_DIR: folder(),
      HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
      HOLDFAST_ROOT_DIR: folder(),
      HOLDFAST_PLUGIN_DIR: folder(),
      HOLDFAST_CONTROLLERS: cluster.agentAddress,
      PATH: process.env["PATH"] ?? "",
    };
    const aheadBy = (ms: number) => {
      const preload = encodeURIComponent(`const now=Date.now;Date.now=()=>now()+(${ms})`);
      return () => ["env", `NODE_OPTIONS=--import=data:text/javascript,${preload}`];
    };
    for (const [ms, words] of [
      [-60_000, "ahead of"],
      [60_000, "behind"],
    ] as const) {
      const { subject, message, cure } = expectFound(
        await examined("agent", agent, { around: aheadBy(ms) }),
        "clock-skew",
      );
      expect([subject, message, cure]).toEqual([
        cluster.agentAddress,
        expect.stringContaining(words),
        expect.stringContaining("timedatectl set-ntp true"),
      ]);
    }
  });

  test("plugin-unusable and node-silent", async () => {
    await cluster.controllerPlugin().stop();
    await until("the plugin to be unusable", async () => (await findings()).find(({ id }) => id === "plugin-unusable"));
    await cluster.node("node-b").agent().kill("SIGKILL");
    const found = await until("the silence to be noticed", async () =>
      (await findings()).find(({ id }) => id === "node-silent"),
    );
    expect([found.subject, found.level]).toEqual(["node-b", "fault"]);
    expect((await run("doctor")).code).toBe(1);
  });
});
