/**
 * Every target of the Dockerfile is built, and docker-compose.yml is run on a real dockerd as README.md says. In order: a test goes on where the one
 * before it ended.
 */
import { spawnSync } from "node:child_process";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { full } from "../support/full.ts";
import { type ActiveClaim, everyProfile, startWriter } from "./compose-cell.ts";
import { type LoadedFile, loadAsCompose2, readAlike } from "./compose-loader.ts";
import { type ComposeRun, oneNode, startComposeRun, takeAwayScript, targets, twoNodes } from "./compose-run.ts";
import { engineInstalled, hostDirectory } from "./engine.ts";
import { expectSmallImages } from "./image-figures.ts";
import { observeOneNode, observeTwoNodes } from "./observed-run.ts";

const asRoot = process.getuid?.() === 0;
if (full && !asRoot) console.warn("SKIPPED: a container engine of the test's own needs root");
const ready = full && asRoot && (await engineInstalled());

describe.runIf(ready)("images and compose file on a real engine", () => {
  let run: ComposeRun;
  let engine: ComposeRun["engine"];
  let cell: ComposeRun["cell"];

  beforeAll(async () => {
    run = await startComposeRun();
    ({ engine, cell } = run);
  }, 5_400_000);
  afterAll(() => run?.stop(), 300_000);

  let broken = false;
  beforeEach(({ skip }) => skip(broken, "a test before it failed"));
  afterEach(({ task }) => {
    broken ||= task.result?.state === "fail";
  });

  const expectAsBefore = async (before: readonly ActiveClaim[]): Promise<void> => {
    expect(await cell.claims()).toEqual(before);
    for (const { workload, host_path } of before)
      expect(await engine.onHost(`cat ${host_path}/written`)).toBe(`by the host for ${workload}`);
  };

  test("images: at most 60 MB above their base, no secret of the build, labels", async () => {
    await expectSmallImages(run);
  });

  test("docker-compose 1.29 and the loader of Compose 2 read the same in the file", async () => {
    const everything = await loadAsCompose2();
    expect(Object.keys(everything.services).sort()).toEqual(
      [...twoNodes, "trust", "cli", "jaeger", "prometheus", "grafana"].sort(),
    );
    const older = parse(await engine.compose([...everyProfile, "config"])) as LoadedFile;
    expect(readAlike(older)).toEqual(readAlike(everything));
  });

  test("up --build, as README.md says: one node, healthy, ready, and one line about the collector that is not there", async () => {
    for (const target of targets) await engine.docker(["image", "rm", `holdfast-${target}`]);
    await engine.compose(["-f", "docker-compose.yml", "-f", run.networkOfBuilds, "up", "-d", "--build"]);
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

  test("observability beside one node: each target of Prometheus is up, its rules and the queries of the dashboards are answered", async () => {
    await observeOneNode(run);
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

  test("the claim of the second node is a trace in Jaeger, found by its workload; its agent is a target of Prometheus", async () => {
    await observeTwoNodes(run);
  });

  test("what the services may and take: memory, read-only roots, the controller without a capability", async () => {
    for (const service of twoNodes) {
      const id = await cell.idOf(service);
      const [main] = [...(await cell.processes(id))].sort((a, b) => b.rssMiB - a.rssMiB);
      run.figures.set(service, "memory", `${main?.rssMiB} MiB`);
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
        `${run.dir}/stop`,
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
      run.figures.set(service, "ends within", `${seconds} s`);
      run.tell(`${service}: ${written} writes of the host while it was restarted and killed, ${failed} failed`);
      expect([written > 0, failed]).toEqual([true, 0]);
    },
  );

  test("the driver is upgraded under live mounts; claims are released by the new one", async () => {
    const before = await cell.claims();
    const upgrade = `FROM holdfast-local-driver
      RUN grep -rl 'holdfastVersion = "0.1.0"' lib | xargs sed -i 's/holdfastVersion = "0.1.0"/holdfastVersion = "0.1.1"/'
      RUN grep -rq 'holdfastVersion = "0.1.1"' lib`;
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
    run.tell("all of it is taken away");
  });
});

const alive = (pid: number): boolean => spawnSync("kill", ["-0", String(pid)]).status === 0;
