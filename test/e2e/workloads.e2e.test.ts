import { spawnSync } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { failpointNames } from "@holdfast/node-agent/failpoints";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  type PrepareWorkloadResponse,
  type ReleaseWorkloadResponse,
  WorkloadServiceDefinition,
} from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { AccessMode, AttachmentMode, WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { createGrpcChannel, createGrpcClient, type GrpcChannel, type GrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { mutatingCalls } from "../harness/calls.ts";
import { type Cluster, type ClusterNode, startCluster } from "../harness/cluster.ts";
import {
  blockWriter,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  plugin,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";
import { signTicket, ticketPair } from "../support/workload-ticket.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const shared = {
  attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
  accessMode: AccessMode.ACCESS_MODE_MULTI_NODE_MULTI_WRITER,
};
const waitFor = { seconds: 20n, nanos: 0 };
/** Beginnings and ends are numbered by one counter. */
const mostAtOnce = (calls: readonly { readonly seq: number; readonly endSeq?: number }[]): number =>
  Math.max(...calls.map(({ seq }) => calls.filter((one) => one.seq <= seq && (one.endSeq ?? Infinity) > seq).length));
type Runner = GrpcClient<typeof WorkloadServiceDefinition>;

describe.skipIf(!root)("a runner that talks to its own host", { timeout: 120_000 }, () => {
  let cluster: Cluster;
  let node: ClusterNode;
  let channel: GrpcChannel;
  let runner: Runner;

  beforeAll(async () => {
    cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      agentEnv: { HOLDFAST_MOUNT_CHECK_INTERVAL: "200ms" },
    });
    node = cluster.node("node-a");
    channel = createGrpcChannel(node.localAddress, { ownConnection: true });
    runner = createGrpcClient(WorkloadServiceDefinition, channel, {
      log: createMemoryLogger(),
      defaultDeadlineMs: 30_000,
    });
  }, 60_000);
  beforeEach(() => cluster.backend.client.clear());
  afterAll(async () => {
    channel.close();
    await cluster.stop();
  });

  const order = (workload: string, volumes: readonly string[]) => ({
    namespace,
    workload,
    volumes: volumes.map((volume) => ({
      claim: { volume },
      mounts: [{ container: "main", containerPath: `/data/${volume}` }],
    })),
    waitFor,
  });
  const prepare = (workload: string, ...volumes: readonly string[]): Promise<PrepareWorkloadResponse> =>
    runner.prepareWorkload(order(workload, volumes));
  const release = (workload: string): Promise<ReleaseWorkloadResponse> =>
    runner.releaseWorkload({ namespace, workload, waitFor });
  const reasonOf = async (run: Promise<unknown>) => {
    const error: unknown = await run.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (!isHoldfastError(error)) throw new Error(`no refusal but ${String(error)}`);
    return { reason: error.reason, metadata: error.metadata };
  };
  const released = (workload: string) =>
    until(`the claims of ${workload} to be over`, async () => {
      const { claims } = await cluster.claims.listClaims({ filter: { namespace, workload } });
      return claims.every((claim) => ["RELEASED", "FAILED"].includes(stateName(claim)));
    });

  it("one call before the start, one after the end: what to mount, and nothing left", async () => {
    for (const id of ["a", "b"]) await makeVolume(cluster, id);
    const { workload } = await prepare("web", "a", "b");
    expect(workload).toMatchObject({ namespace, workload: "web", ready: true });
    expect(workload?.mounts.map((m) => [m.alias, m.container, m.containerPath])).toEqual([
      ["a", "main", "/data/a"],
      ["b", "main", "/data/b"],
    ]);
    const mounted = await mountsUnder(`${node.rootDir}/publish`);
    for (const { hostPath } of workload?.mounts ?? [])
      expect(mounted.filter((line) => line.split(" ")[4] === hostPath)).toHaveLength(1);
    const calls = await mutatingCalls(cluster);
    expect(await prepare("web", "a", "b")).toEqual({ workload });
    expect(await runner.getWorkload({ namespace, workload: "web" })).toEqual({ workload });
    expect(await mutatingCalls(cluster)).toEqual(calls);
    expect(await reasonOf(prepare("web", "a"))).toMatchObject({ reason: "CLAIM_EXISTS" });
    const { volumes } = await runner.getWorkloadStats({ namespace, workload: "web" });
    expect(volumes.map(({ alias, shared: by, error }) => [alias, by, error])).toEqual([
      ["a", false, undefined],
      ["b", false, undefined],
    ]);
    expect(await release("web")).toEqual({ unmounted: true, remaining: [] });
    await released("web");
    expect(await reasonOf(runner.getWorkload({ namespace, workload: "web" }))).toMatchObject({
      reason: "WORKLOAD_NOT_FOUND",
    });
    expect(await release("web")).toEqual({ unmounted: true, remaining: [] });
    for (const id of ["a", "b"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  });

  it("a block device comes with its number, also in another life of the agent", async () => {
    await makeVolume(cluster, "raw", blockWriter);
    const { workload } = await prepare("web", "raw");
    const [mount] = workload?.mounts ?? [];
    expect(mount?.device).toMatchObject({ path: expect.stringMatching(/^\/dev\/loop\d+$/), major: 7 });
    expect(Number(mount?.device?.path.replace(/\D/g, ""))).toBe(mount?.device?.minor);
    await node.agent().kill("SIGKILL");
    await node.startAgent();
    expect((await runner.getWorkload({ namespace, workload: "web" })).workload?.mounts).toEqual([mount]);
    expect(await release("web")).toEqual({ unmounted: true, remaining: [] });
    await released("web");
    await removeVolume(cluster, "raw");
    await expectClean(cluster);
  });

  it("[W22] [W23] one volume that cannot be had: all or nothing, and what was done is undone", async () => {
    await makeVolume(cluster, "good");
    expect(await reasonOf(prepare("web", "good", "none"))).toMatchObject({ reason: "VOLUME_NOT_FOUND" });
    expect(await reasonOf(runner.getWorkload({ namespace, workload: "web" }))).toMatchObject({
      reason: "WORKLOAD_NOT_FOUND",
    });
    const { externalId } = await makeVolume(cluster, "bad");
    const fault = { method: "NodePublishVolume", match: { volume: externalId }, code: "INVALID_ARGUMENT" } as const;
    await cluster.backend.client.setFaults([fault]);
    expect(await reasonOf(prepare("web", "good", "bad"))).toMatchObject({
      reason: "CLAIM_FAILED",
      metadata: { volume: "bad", alias: "bad", cause: "PLUGIN_REFUSED" },
    });
    await until("everything to be unmounted", async () => (await mountsUnder(node.rootDir)).length === 0);
    await released("web");
    for (const id of ["good", "bad"]) await removeVolume(cluster, id);
    await expectClean(cluster);
  });

  it("the controller is away: what is mounted is answered the same, and given back", async () => {
    await makeVolume(cluster, "a");
    const before = await prepare("web", "a");
    await cluster.controller().kill("SIGKILL");
    expect(await prepare("web", "a")).toEqual(before);
    // Also by an agent that has never met it.
    await node.agent().kill("SIGKILL");
    const restarting = node.startAgent();
    const again = await persistently("an answer of the new life", () => prepare("web", "a"));
    expect(again.workload?.mounts).toEqual(before.workload?.mounts);
    expect(again.workload?.ready).toBe(true);
    expect(await reasonOf(prepare("other", "a"))).toMatchObject({ reason: "CONTROLLER_UNAVAILABLE" });
    const calls = (await mutatingCalls(cluster)).length;
    expect(await release("web")).toEqual({ unmounted: true, remaining: [] });
    expect(await mountsUnder(node.rootDir)).toEqual([]);
    expect((await mutatingCalls(cluster)).slice(calls)).toEqual(["NodeUnpublishVolume", "NodeUnstageVolume"]);
    await runner.releaseWorkload({ namespace, workload: "other", waitFor });
    await cluster.startController();
    await restarting;
    await released("web");
    await removeVolume(cluster, "a");
    await expectClean(cluster);
  });

  it("the one that is replaced goes first, and others come after", async () => {
    await makeVolume(cluster, "a");
    await prepare("old", "a");
    expect(await reasonOf(prepare("stranger", "a"))).toMatchObject({ reason: "CLAIM_CONFLICT" });
    const next = runner.prepareWorkload({ ...order("new", ["a"]), replaces: ["old"] });
    const short = runner.prepareWorkload({
      ...order("new", ["a"]),
      replaces: ["old"],
      waitFor: { seconds: 0n, nanos: 3e8 },
    });
    expect(await reasonOf(short)).toMatchObject({ reason: "DEADLINE" });
    expect(await release("old")).toMatchObject({ unmounted: true });
    expect((await next).workload?.ready).toBe(true);
    await release("new");
    await released("new");
    await removeVolume(cluster, "a");
    await expectClean(cluster);
  });

  it("a watch begins with what there is, goes on with what changes, and can be resumed", async () => {
    await until("nothing of an earlier test to be known", () =>
      runner.getWorkload({ namespace, workload: "other" }).then(
        () => false,
        () => true,
      ),
    );
    await makeVolume(cluster, "a");
    await prepare("web", "a");
    const stop = new AbortController();
    const seen: [number, string, boolean][] = [];
    const tokens: string[] = [];
    const watching = (async () => {
      for await (const { kind, workload, resumeToken } of runner.watchWorkloads({}, { signal: stop.signal })) {
        seen.push([kind, workload?.workload ?? "", workload?.ready ?? false]);
        tokens.push(resumeToken);
      }
    })().catch(() => undefined);
    await until("the watch to be in step", () => seen.some(([kind]) => kind === WatchKind.WATCH_KIND_SYNCED));
    expect(seen).toEqual([
      [WatchKind.WATCH_KIND_EXISTING, "web", true],
      [WatchKind.WATCH_KIND_SYNCED, "", false],
    ]);
    await release("web");
    await until("its end to be told", () => seen.some(([kind]) => kind === WatchKind.WATCH_KIND_REMOVED));
    stop.abort();
    await watching;
    const resumed = runner.watchWorkloads({ resumeToken: tokens[1] ?? "" })[Symbol.asyncIterator]();
    expect((await resumed.next()).value).toMatchObject({ workload: { workload: "web" }, resumeToken: tokens[2] });
    await resumed.return?.();
    await node.agent().kill("SIGKILL");
    await node.startAgent();
    const late = runner.watchWorkloads({ resumeToken: tokens[1] ?? "" })[Symbol.asyncIterator]();
    expect(await reasonOf(late.next())).toMatchObject({ reason: "EVENTS_TRIMMED" });
    await released("web");
    await removeVolume(cluster, "a");
    await expectClean(cluster);
  });

  it("a mount that dies under a workload is made anew, and its runner hears that it has to be restarted", async () => {
    await makeVolume(cluster, "a");
    const { workload } = await prepare("web", "a");
    const [mount] = workload?.mounts ?? [];
    const stop = new AbortController();
    const reasons: string[] = [];
    const watching = (async () => {
      for await (const { workload: it } of runner.watchWorkloads({}, { signal: stop.signal }))
        if (it?.restartWantedSince !== undefined) reasons.push(it.restartReason);
    })().catch(() => undefined);
    expect(spawnSync("umount", [mount?.hostPath ?? ""]).status).toBe(0);
    await until("the runner to be told", () => reasons.length > 0);
    expect(new Set(reasons)).toEqual(new Set(["the mount of its volume a was lost"]));
    const name = { namespace, workload: "web" };
    await until("the mount to be back", async () => (await runner.getWorkload(name)).workload?.ready);
    expect((await runner.getWorkload(name)).workload).toMatchObject({ mounts: [mount], restartReason: reasons[0] });
    expect((await prepare("web", "a")).workload?.restartWantedSince).toBeUndefined();
    stop.abort();
    await watching;
    expect(await release("web")).toEqual({ unmounted: true, remaining: [] });
    await released("web");
    await removeVolume(cluster, "a");
    await expectClean(cluster);
  });

  /** Before and after every step of a life, and after so many writes of the journal, whatever they say. */
  const kills: readonly string[] = [
    ...failpointNames.filter((name) => !/dead|compact|journal\.after-write/.test(name)).map((name) => `${name}=kill`),
    ...Array.from({ length: 14 }, (_, at) => `agent.journal.after-write=kill@${at + 1}`),
  ];
  /** Stage was done and its OK, which is written with the publication, not yet: only here it is asked for again. */
  const stagedInDoubt =
    /stage\.after-call|\.publish\.(?:before-journal|after)|published\.before-journal|journal\.after-write/;

  it.each(full ? kills : kills.filter((_, at) => at % 9 === 0))(
    "[W2] [W3] two workloads, one volume, %s: one Stage, and Unstage only after both",
    { timeout: 180_000 },
    async (kill) => {
      await makeVolume(cluster, "a", shared);
      await cluster.backend.client.clear();
      await node.agent().kill("SIGTERM");
      const armed = node.startAgent({ HOLDFAST_FAILPOINTS: kill }).catch(() => undefined);
      const revived = (async () => {
        await armed;
        await node.agent().exited();
        await node.startAgent();
      })();
      const prepared = async (workload: string) => {
        const { workload: it } = await persistently(`${workload} to be prepared`, () => prepare(workload, "a"));
        expect(it?.ready).toBe(true);
      };
      const count = async (method: string) => (await mutatingCalls(cluster)).filter((call) => call === method).length;
      await prepared("one");
      await prepared("two");
      expect((await persistently("the first release", () => release("one"))).unmounted).toBe(true);
      expect(await count("NodeUnstageVolume")).toBe(0);
      expect((await persistently("the second release", () => release("two"))).unmounted).toBe(true);
      await revived;
      for (const workload of ["one", "two"]) await released(workload);
      expect(await count("NodeStageVolume")).toBeLessThanOrEqual(stagedInDoubt.test(kill) ? 2 : 1);
      await removeVolume(cluster, "a");
      await expectClean(cluster);
    },
  );

  it("[W21] ten volumes take as long as the slowest one: all are on their way at the same time", async () => {
    const ids = Array.from({ length: 10 }, (_, at) => `v${at}`);
    for (const id of ids) await makeVolume(cluster, id);
    await cluster.backend.client.clear();
    const slow = { hangMs: 1_500, times: "always" } as const;
    await cluster.backend.client.setFaults([{ method: "NodeStageVolume", ...slow }]);
    expect((await prepare("web", ...ids)).workload?.mounts.map(({ alias }) => alias)).toEqual(ids);
    const stages = (await cluster.backend.client.record()).filter(({ method }) => method === "NodeStageVolume");
    expect(stages).toHaveLength(ids.length);
    expect(mostAtOnce(stages)).toBe(ids.length);
    await cluster.backend.client.setFaults([]);
    await cluster.backend.client.clear();
    await cluster.backend.client.setFaults([{ method: "NodeUnstageVolume", ...slow }]);
    expect(await release("web")).toEqual({ unmounted: true, remaining: [] });
    expect(
      mostAtOnce((await cluster.backend.client.record()).filter(({ method }) => method === "NodeUnstageVolume")),
    ).toBe(ids.length);
    await cluster.backend.client.setFaults([]);
    await released("web");
    for (const id of ids) await removeVolume(cluster, id);
    await expectClean(cluster);
  });

  it("where a grant has ticket keys a workload is prepared and given back by its ticket alone, which is written nowhere", async () => {
    const own = { namespace: "ticketed", workload: "web" };
    const [pair, other] = [ticketPair(), ticketPair()];
    const reason = "for the test";
    const keys = (ticketKeys: string[]) =>
      cluster.grants.setGrant({
        ...{ scheduler: "nomad", namespaces: [own.namespace], plugins: ["*"], reason, ticketKeys },
      });
    await keys([pair.pem]);
    const spec = { id: "kept", plugin, capacity: { requiredBytes: 16n << 20n }, capabilities: [shared], waitFor };
    await cluster.volumes.createVolume({ ...spec, namespace: own.namespace });
    const soon = Math.floor(Date.now() / 1000) + 600;
    const sign = (change: object = {}, by = pair) =>
      signTicket(by, { ...own, node: "node-a", volumes: ["kept"], exp: soon, ...change });
    const asks = (ticket: string) => runner.prepareWorkload({ ...order("web", ["kept"]), ...own, ticket });
    const gives = (ticket: string) => runner.releaseWorkload({ ...own, waitFor, ticket });

    const ticket = await sign();
    const bad = await Promise.all([
      ...[{ node: "node-b" }, { workload: "db" }, { volumes: ["more"] }, { exp: soon - 601 }].map((it) => sign(it)),
      sign({}, other),
    ]);
    expect(await reasonOf(asks(""))).toMatchObject({ reason: "TICKET_REQUIRED", metadata: { ...own, node: "node-a" } });
    for (const one of bad) expect(await reasonOf(asks(one))).toMatchObject({ reason: "TICKET_REFUSED" });
    expect((await cluster.claims.listClaims({ filter: { namespace: own.namespace } })).claims).toEqual([]);
    expect((await asks(ticket)).workload).toMatchObject({ ...own, ready: true });

    expect(await reasonOf(gives(""))).toMatchObject({ reason: "TICKET_REQUIRED" });
    for (const one of bad.filter((_, at) => at !== 2))
      expect(await reasonOf(gives(one))).toMatchObject({ reason: "TICKET_REFUSED" });
    expect((await runner.getWorkload(own)).workload?.ready).toBe(true);
    await keys([other.pem]);
    expect(await reasonOf(gives(ticket))).toMatchObject({ reason: "TICKET_REFUSED", metadata: { why: "signature" } });
    await keys([pair.pem]);
    expect(await gives(ticket)).toEqual({ unmounted: true, remaining: [] });
    await until("its claims to be over", async () => {
      const { claims } = await cluster.claims.listClaims({ filter: own });
      return claims.length > 0 && claims.every((claim) => stateName(claim) === "RELEASED");
    });

    const signatures = [ticket, ...bad].map((one) => one.slice(one.lastIndexOf(".") + 1));
    const files = await readdir(cluster.dir, { recursive: true, withFileTypes: true });
    const written = await Promise.all(
      files.flatMap((file) => (file.isFile() ? [readFile(path.join(file.parentPath, file.name), "latin1")] : [])),
    );
    expect(written.some((text) => text.includes("ticketed"))).toBe(true);
    for (const text of [cluster.output(), ...written])
      for (const signature of signatures) expect(text.includes(signature)).toBe(false);
    await cluster.volumes.deleteVolume({ namespace: own.namespace, id: "kept", waitFor });
    await cluster.grants.deleteGrant({ scheduler: "nomad", reason });
    await expectClean(cluster);
  });
});
