/**
 * Every target of the Dockerfile is built, and docker-compose.yml is run on a real dockerd as README.md says. In order: a test goes on where the one
 * before it ended.
 */
import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { blocksOf } from "../documents/guide-walk.ts";
import { full } from "../support/full.ts";
import { buildGoProgram, goModule, root, runToEnd } from "../support/run-go.ts";
import { buildSecrets, makeBaseImages } from "./base-images.ts";
import { type ActiveClaim, createComposeCell, everyProfile, startWriter } from "./compose-cell.ts";
import { type Engine, engineInstalled, hostDirectory, startEngine } from "./engine.ts";

const asRoot = process.getuid?.() === 0;
if (full && !asRoot) console.warn("SKIPPED: a container engine of the test's own needs root");
const ready = full && asRoot && (await engineInstalled());

const targets = ["controller", "node-agent", "local-driver", "cli"] as const;
const oneNode = ["redis", "controller", "node-a", "local-driver"];
const twoNodes = [...oneNode, "node-b", "local-driver-b"];
const megabytes = (bytes: string): number => Math.round(Number(bytes) / 1e6);

describe.runIf(ready)("images and compose file on a real engine", () => {
  let dir: string;
  let engine: Engine;
  let cell: ReturnType<typeof createComposeCell>;
  const told: string[] = [];
  const tell = (line: string): void => {
    told.push(line);
    process.stdout.write(`containers: ${line}\n`);
  };

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-containers-"));
    const builder = await startEngine(dir, "build");
    try {
      await makeBaseImages(builder, dir);
      const secrets = await buildSecrets(dir);
      for (const target of targets)
        await builder.docker([
          ...["build", "-q", "--network", "host", ...secrets, "--target", target, "-t", `holdfast-${target}`, root],
        ]);
    } finally {
      await builder.stop();
    }
    engine = await startEngine(dir, "run");
    cell = createComposeCell(engine);
  }, 3_600_000);

  afterAll(async () => {
    if (engine !== undefined) {
      // What a failed test left: their host ends with the engine, and loop devices would not.
      await engine.compose([...everyProfile, "down", "-v"]).catch(() => undefined);
      await engine.onHost(await takeAwayScript()).catch(() => undefined);
      await engine.stop();
    }
    await rm(dir ?? "/nonexistent", { recursive: true, force: true });
  }, 300_000);

  let broken = false;
  beforeEach(({ skip }) => skip(broken, "a test before it failed"));
  afterEach(({ task }) => {
    broken ||= task.result?.state === "fail";
  });

  const takeAwayScript = async (): Promise<string> =>
    blocksOf(await readFile(path.join(root, "docs/containers.md"), "utf8")).find(({ text }) => text.includes("losetup"))
      ?.text ?? "exit 1";

  const expectAsBefore = async (before: readonly ActiveClaim[]): Promise<void> => {
    expect(await cell.claims()).toEqual(before);
    for (const { workload, host_path } of before)
      expect(await engine.onHost(`cat ${host_path}/written`)).toBe(`by the host for ${workload}`);
  };

  test("images: at most 60 MB above their base, no secret of the build, labels", async () => {
    const size = async (name: string) => megabytes(await engine.docker(["image", "inspect", "-f", "{{.Size}}", name]));
    const base = await size("node:26-slim");
    tell(`node:26-slim as made here: ${base} MB`);
    for (const target of targets) {
      const name = `holdfast-${target}`;
      const layers = (
        await engine.docker(["history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", name])
      )
        .split("\n")
        .filter((line) => target === "local-driver" && line.includes("e2fsprogs"));
      const packages = layers.reduce((sum, line) => sum + megabytes(line.split(" ")[0] ?? "0"), 0);
      const whole = await size(name);
      tell(
        `${name}: ${whole} MB, ${whole - base - packages} above its base${packages === 0 ? "" : ` and ${packages} of packages`}`,
      );
      expect(whole - base - packages).toBeLessThanOrEqual(60);
      const look = ["run", "--rm", "--network", "none", "--user", "0", "--entrypoint", "sh", name, "-c"];
      expect(await engine.docker([...look, "ls -A /run/secrets /root/.npmrc 2>/dev/null; true"])).toBe("");
      const labels = await engine.docker(["image", "inspect", "-f", "{{json .Config.Labels}}", name]);
      expect(JSON.parse(labels)).toMatchObject({ "org.opencontainers.image.title": name });
    }
  });

  test("the file is valid for docker-compose 1.29 and by the loader of Compose 2", async () => {
    await engine.compose([...everyProfile, "config", "-q"]);
    const sum = "h1:UHSv/QHlo6QJtrT4igF1rdORgIUhDo1gWuyJUoiNNIM=";
    const module = await goModule("github.com/compose-spec/compose-go/v2@v2.9.0", sum);
    const loader = await buildGoProgram("compose-spec", module, "./cmd", 600_000);
    const loaded = await runToEnd(loader, ["--format", "json", "docker-compose.yml"], 60_000, {
      env: { PATH: process.env["PATH"] ?? "", COMPOSE_PROFILES: "*" },
    });
    expect([loaded.code, loaded.output.includes("warning")]).toEqual([0, false]);
    const { services } = JSON.parse(loaded.stdout) as { readonly services: object };
    expect(Object.keys(services).sort()).toEqual(
      [...twoNodes, "trust", "cli", "jaeger", "prometheus", "grafana"].sort(),
    );
  });

  test("up: one node, healthy, ready, and one line about the collector that is not there", async () => {
    await engine.compose(["up", "-d", "--no-build"]);
    await cell.healthy(oneNode);
    const started = await engine.docker(["ps", "-a", "--format", '{{.Label "com.docker.compose.service"}}']);
    expect(started.split("\n").sort()).toEqual([...oneNode, "trust"].sort());
    const { nodes } = JSON.parse(await cell.cli(["--json", "node", "list"])) as {
      readonly nodes: readonly { state: string }[];
    };
    expect(nodes.map(({ state }) => state)).toEqual(["NODE_STATE_READY"]);
    await cell.createVolume("first", "local.holdfast.dev", "directory");
    await cell.cli(["volume", "delete", "first"]);
    // Longer than the minute after which it was said again.
    await new Promise((resolve) => setTimeout(resolve, 70_000));
    for (const service of ["controller", "node-a", "local-driver"]) {
      const log = await cell.logOf(service);
      expect([service, log.match(/"message":"tracing: /g)?.length]).toEqual([service, 1]);
      expect(log).not.toMatch(/Tini is not running as PID 1/);
    }
  });

  test("two nodes, a claim on each, files written through the mounts that the host sees", async () => {
    await engine.compose(["--profile", "two-nodes", "up", "-d", "--no-build"]);
    await cell.healthy(twoNodes);
    await cell.createVolume("data-a", "local.holdfast.dev", "image");
    await cell.createVolume("data-b", "local-b.holdfast.dev", "image");
    await cell.cli(["claim", "create", "web-a", "data-a", "--node", "node-a"]);
    await cell.cli(["claim", "create", "web-b", "data-b", "--node", "node-b"]);
    const claims = await cell.claims();
    expect(claims.map(({ workload, node, state }) => [workload, node, state])).toEqual([
      ["web-a", "node-a", "CLAIM_STATE_ACTIVE"],
      ["web-b", "node-b", "CLAIM_STATE_ACTIVE"],
    ]);
    expect(await cell.mounts()).toEqual(expect.arrayContaining(claims.map(({ host_path }) => host_path)));
    for (const { workload, node, host_path } of claims) {
      await engine.onHost(`printf %s 'by the host for ${workload}' > ${host_path}/written`);
      const seen = await engine.docker(["exec", await cell.idOf(node), "cat", `${host_path}/written`]);
      expect(seen).toBe(`by the host for ${workload}`);
    }
    expect(await cell.loops()).toHaveLength(2);
  });

  test("what the services may and take: memory, read-only roots, the controller without a capability", async () => {
    for (const service of twoNodes) {
      const id = await cell.idOf(service);
      const [main] = [...(await cell.processes(id))].sort((a, b) => b.rssMiB - a.rssMiB);
      tell(`${service}: ${main?.rssMiB} MiB`);
      if (service === "redis") continue;
      await expect(engine.docker(["exec", id, "touch", "/app/x"])).rejects.toThrow(/Read-only file system/);
    }
    const rights = await engine.docker(["exec", await cell.idOf("controller"), "grep", "^CapEff", "/proc/self/status"]);
    expect(rights).toMatch(/\t0+$/);
  });

  test.each(twoNodes)(
    "%s restarted and killed: claims stay ACTIVE, and each write of the host arrives",
    async (service) => {
      const before = await cell.claims();
      const writer = startWriter(
        engine.onHost,
        before.map(({ host_path }) => host_path),
        `${dir}/stop`,
      );
      onTestFinished(async () => void (await writer.end()));
      const id = await cell.idOf(service);
      const from = performance.now();
      await engine.docker(["stop", "-t", "30", id]);
      const seconds = ((performance.now() - from) / 1000).toFixed(1);
      expect(await cell.inspect(id, "{{.State.ExitCode}}")).toBe("0");
      await engine.docker(["start", id]);
      await cell.healthy([service, "controller"]);
      const claims = await cell.claims();
      expect(claims).toEqual(before);
      const pid = Number(await cell.inspect(id, "{{.State.Pid}}"));
      const lives = Number(await cell.inspect(id, "{{.RestartCount}}"));
      const all = await cell.processes(id);
      process.kill(pid, "SIGKILL");
      await expect
        .poll(async () => Number(await cell.inspect(id, "{{.RestartCount}}")), { timeout: 60_000 })
        .toBe(lives + 1);
      await cell.healthy([service, "controller"]);
      // In the process namespace of the host nothing but the engine ends what the killed process had started.
      const now = (await cell.processes(id)).map((each) => each.pid);
      for (const { pid: old } of all) expect([service, now.includes(old), alive(old)]).toEqual([service, false, false]);
      await expectAsBefore(before);
      const { written, failed } = await writer.end();
      tell(`${service}: ended within ${seconds} s; ${written} writes of the host meanwhile, ${failed} failed`);
      expect([written > 0, failed]).toEqual([true, 0]);
    },
  );

  test("the driver is upgraded under live mounts; claims are released by the new one", async () => {
    const before = await cell.claims();
    const upgrade = `FROM holdfast-local-driver
      RUN sed -i 's/driverVersion = "0.1.0"/driverVersion = "0.1.1"/' packages/local-driver/src/config.ts
      RUN grep -q '"0.1.1"' packages/local-driver/src/config.ts`;
    await engine.docker(["build", "-q", "--network", "none", "-t", "holdfast-local-driver", "-"], upgrade);
    const old = await cell.idOf("local-driver");
    await engine.compose(["--profile", "two-nodes", "up", "-d", "--no-build"]);
    expect(await cell.idOf("local-driver")).not.toBe(old);
    await cell.healthy(twoNodes);
    await expect
      .poll(() => cell.cli(["plugin", "list"]), { timeout: 60_000 })
      .toMatch(/local\.holdfast\.dev +0\.1\.1 .* yes/);
    await expectAsBefore(before);
    await cell.cli(["claim", "release", "web-b"]);
    expect((await cell.claims()).map(({ workload }) => workload)).toEqual(["web-a"]);
    const [claim] = before;
    expect((await cell.mounts()).every((mount) => mount.includes("/node-a/"))).toBe(true);
    expect(await engine.onHost(`cat ${claim?.host_path}/written`)).toBe("by the host for web-a");
  });

  test("down without -v, and up again: the claim is as it was, and the host's mount stays meanwhile", async () => {
    const before = await cell.claims();
    await engine.compose([...everyProfile, "down"]);
    expect(await engine.docker(["ps", "-aq"])).toBe("");
    for (const { workload, host_path } of before)
      expect(await engine.onHost(`cat ${host_path}/written`)).toBe(`by the host for ${workload}`);
    await engine.compose(["--profile", "two-nodes", "up", "-d", "--no-build"]);
    await cell.healthy(twoNodes);
    await expectAsBefore(before);
  });

  const nothingIsLeft = async (): Promise<void> => {
    expect(await engine.docker(["ps", "-aq"])).toBe("");
    expect(await engine.docker(["volume", "ls", "-q"])).toBe("");
    expect(await engine.docker(["network", "ls", "-q", "--filter", "type=custom"])).toBe("");
    expect(await cell.mounts()).toEqual([]);
    expect(await cell.loops()).toEqual([]);
  };

  test("released, deleted, down -v: no mount, loop device, container, network or volume is left", async () => {
    await cell.cli(["claim", "release", "web-a"]);
    await cell.cli(["volume", "delete", "data-a"]);
    await cell.cli(["volume", "delete", "data-b"]);
    expect([await cell.mounts(), await cell.loops()]).toEqual([[], []]);
    await engine.compose([...everyProfile, "down", "-v", "--remove-orphans"]);
    await nothingIsLeft();
    expect(await engine.onHost(`find ${hostDirectory} -name '*.img' -o -path '*/volumes/*' | head`)).toBe("");
  });

  test("down -v under a live claim, then what docs/containers.md says takes all of it away", async () => {
    await engine.onHost(`rm -rf ${hostDirectory}/*`);
    await engine.compose(["up", "-d", "--no-build"]);
    await cell.healthy(oneNode);
    await cell.createVolume("data", "local.holdfast.dev", "image");
    await cell.cli(["claim", "create", "web", "data", "--node", "node-a"]);
    await engine.compose([...everyProfile, "down", "-v", "--remove-orphans"]);
    expect([(await cell.mounts()).length > 0, (await cell.loops()).length]).toEqual([true, 1]);
    await engine.onHost(await takeAwayScript());
    await nothingIsLeft();
    expect(await engine.onHost(`ls -A ${hostDirectory}`)).toBe("");
    tell("all of it is taken away");
  });
});

const alive = (pid: number): boolean => spawnSync("kill", ["-0", String(pid)]).status === 0;
