/**
 * A detach lies at the relay of a node when that node dies, and its host boots at once, is made anew from an image, or stays away while
 * Redis starts anew. Other volumes go on meanwhile, and the barred pair waits for the evidence that is due.
 */
import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { admitWaiting } from "../harness/admit-waiting.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { freeze } from "../harness/frozen.ts";
import { othersGoOn, queuedClaim } from "../harness/goes-on.ts";
import { heldDetach } from "../harness/held-detach.ts";
import { seenFrom, settleDriver } from "../harness/plugin-driver.ts";
import { type RelayHosts, startRelayHosts } from "../harness/relay-hosts.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  mountsUnder,
  namespace,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { type RedisServer, startRedisServer } from "../support/redis-server.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const nodes = ["node-a", "node-b"];
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!root)("the node of a relay dies with a detach in it", () => {
  let redis: RedisServer;
  let cluster: Cluster;
  let second: Cluster;
  let hosts: RelayHosts;

  beforeAll(async () => {
    redis = await startRedisServer();
    cluster = await startCluster({
      nodes,
      store: redis.url,
      second: {},
      controllerHalvesOn: nodes,
      realMounts: true,
      controllerEnv: { HOLDFAST_LINK_GRACE: "1s" },
      backend: { judgesArrivals: true },
    });
    second = seenFrom(cluster, "second");
    hosts = await startRelayHosts(cluster, nodes);
    // The instance that a controller called last stays the one: all calls are one controller's.
    await settleDriver(cluster);
  });
  afterAll(async () => {
    await cluster?.stop();
    await hosts?.stop();
    await redis?.stop();
  });

  const detach = heldDetach(() => cluster);
  const { barsOf, callsOf, detachesOf } = detach;
  const claimNow = async (uid: string): Promise<Claim | undefined> =>
    (await cluster.claims.listClaims({ filter: { namespace } })).claims.find((claim) => claim.uid === uid);
  const attachedAt = async (id: string) => (await callsOf(id, /^ControllerPublish/)).map(({ instance }) => instance);
  const mountCallsOf = async (id: string) =>
    (await callsOf(id, /^Node(Un)?(stage|publish)/i)).map(({ method }) => method);
  const sent = (instance: string) => ({ instance, reply: "sent" });

  /** A volume that one node has and the instance of the other attached; that one has a volume of its own. */
  const held = async (id: string) => {
    await cluster.backend.client.clear();
    await persistently("the volume", () => makeVolume(cluster, id));
    const own = `${id}-own`;
    await makeVolume(cluster, own);
    const claimed = async (volume: string, node: string): Promise<Claim> => {
      const claim = await claimVolume(cluster, volume, { node });
      expect(stateName(claim)).toBe("ACTIVE");
      return claim;
    };
    await claimed(id, "node-b");
    const [relay = ""] = await attachedAt(id);
    const other = relay === "node-a" ? "node-b" : "node-a";
    if (other === "node-a") {
      await releaseWorkload(cluster, `w-${id}`);
      await cluster.backend.client.clear();
      await claimed(id, other);
    }
    const kept = await claimed(own, relay);
    expect((await attachedAt(id)).at(-1)).toBe(relay);
    return { relay, other, own, kept };
  };
  /** It lies in the socket of a plugin that is frozen. */
  const detachLies = async (id: string, relay: string) => {
    const frozen = freeze(hosts.half(relay));
    await detach.given(id);
    // It is on its way to the plugin: nothing tells when it lies in the socket.
    await pause(500);
    return frozen;
  };
  /** The node of the relay does not answer; the other one had the volume, and makes the call. */
  const overtaken = async (id: string, other: string): Promise<void> => {
    await detach.overtaken(id, { holder: other, by: other });
    await pairBarred(id, other);
  };
  const pairBarred = async (id: string, other: string): Promise<void> =>
    expect(claimVolume(cluster, id, { node: other, workload: "early" })).rejects.toMatchObject({
      reason: "NODE_BARRED",
      message: expect.stringContaining("clear-bar"),
    });
  const ended = async (...ids: readonly string[]): Promise<void> => {
    for (const workload of ["next", ...ids.map((id) => `w-${id}`)]) {
      const over = await persistently("the release", () => releaseWorkload(cluster, workload));
      expect(over.map(stateName)).not.toContain("ACTIVE");
    }
    for (const id of ids) await persistently("the deletion", () => removeVolume(cluster, id));
    await expectClean(cluster);
  };

  /** Neither controller can vet the new process before it has heard of what that node holds. */
  const redisStartsAnew = async (): Promise<void> => {
    await redis.kill();
    await redis.restart();
    for (const side of [cluster, second])
      await until("a controller that grants nothing", () =>
        makeVolume(side, "untimely").then(
          () => false,
          ({ reason }: { readonly reason?: unknown }) => reason === "STORE_UNVETTED",
        ),
      );
  };
  /** Tells, later, that both controllers grant again, each after its own look at the store. */
  const bothGrant = (): Promise<unknown> => {
    const from = Date.now();
    const isOpen = ({ message, time }: Record<string, unknown>): boolean =>
      message === "the store may grant" && Date.parse(String(time)) >= from;
    const controllers = [cluster.controller(), cluster.second.process()];
    return Promise.all(controllers.map((each) => each.line(isOpen, "that the store may grant")));
  };

  it("[I1] [I8] two vettings at once, of a Redis that starts anew: none is over before each node has spoken, and one claim is granted", async () => {
    await makeVolume(cluster, "raced");
    const silent = freeze(cluster.node("node-b").agent());
    onTestFinished(silent.thaw);
    const open = bothGrant();
    await redisStartsAnew();
    const { open: early, findings } = await cluster.repair.vet({});
    expect([early, findings.filter(({ node }) => node === "node-a")]).toEqual([false, []]);
    silent.thaw();
    await open;
    const racers = [cluster, second, cluster, second].map((side, i) =>
      claimVolume(side, "raced", { node: nodes[i % 2] ?? "", workload: `raced-${i}` }).then(
        stateName,
        ({ reason }: { readonly reason?: unknown }) => reason,
      ),
    );
    expect((await Promise.all(racers)).sort()).toEqual(["ACTIVE", ...Array(3).fill("CLAIM_CONFLICT")]);
    expect(await attachedAt("raced")).toHaveLength(1);
    for (const i of racers.keys()) await releaseWorkload(cluster, `raced-${i}`);
    await ended("raced");
  });

  it("[I1] [I2] [I8] [CW2] Redis starts anew while it is away, and has all that was acknowledged: no person is asked, no bar is lifted, no claim ends", async () => {
    const { relay, other, own, kept } = await held("restarted");
    const frozen = await detachLies("restarted", relay);
    onTestFinished(frozen.thaw);
    const mounts = await mountsUnder(cluster.node(relay).rootDir);
    await cluster.node(relay).agent().kill("SIGKILL");
    await overtaken("restarted", other);
    await othersGoOn(cluster, [other]);

    const open = bothGrant();
    await redisStartsAnew();
    await open;

    expect(await barsOf("restarted")).toHaveLength(1);
    await pairBarred("restarted", other);
    for (const side of [cluster, second]) await othersGoOn(side, [other]);
    const taken = claimVolume(cluster, own, { node: other, workload: "early" });
    await expect(taken).rejects.toMatchObject({ reason: "CLAIM_CONFLICT" });
    const next = queuedClaim(cluster, "restarted", other, "next");
    await hosts.startAgent(relay);
    expect(await barsOf("restarted")).toHaveLength(1);
    frozen.thaw();
    expect(await next.state).toBe("ACTIVE");
    expect(await barsOf("restarted")).toEqual([]);
    // As it came from the life that is gone, and as the next one repeated it.
    expect((await detachesOf("restarted")).map(({ instance }) => instance)).toEqual([other, relay, relay]);
    expect(await mountsUnder(cluster.node(relay).rootDir)).toEqual(mounts);
    expect(await claimNow(kept.uid)).toMatchObject({ state: ClaimState.CLAIM_STATE_ACTIVE, epoch: kept.epoch });
    await ended("restarted", own);
  });

  /** Until a person has said that it is the node. Tells what it was asked to mount. */
  const bootsWith = async (id: string, imaged: boolean) => {
    const { relay, other, own, kept } = await held(id);
    const { nodeEpoch = 0n } = (await cluster.nodes.getNode({ name: relay })).node ?? {};
    await detachLies(id, relay);
    await hosts.powerCut(relay);
    let up = false;
    const app = await hosts.boot(relay, { imaged });
    onTestFinished(() => app.stop());
    const starting = app.start(AbortSignal.timeout(80_000)).then(() => {
      up = true;
    });
    starting.catch(() => undefined);
    await overtaken(id, other);
    await othersGoOn(cluster, [other]);
    const { node: told } = await cluster.nodes.getNode({ name: relay });
    expect(told).toMatchObject({ nodeEpoch, blocked: { reason: "NODE_PENDING" } });
    expect(up).toBe(false);
    expect(await barsOf(id)).toHaveLength(1);
    const mounted = await mountCallsOf(own);
    expect(mounted.slice(-2)).toEqual(["NodeStageVolume", "NodePublishVolume"]);

    const next = queuedClaim(cluster, id, other, "next");
    await admitWaiting(cluster, relay);
    await starting;
    expect(await next.state).toBe("ACTIVE");
    expect(await barsOf(id)).toEqual([]);
    // The one that lay in the socket went with its plugin.
    expect(await detachesOf(id)).toEqual([sent(other), sent(relay)]);
    expect((await cluster.nodes.getNode({ name: relay })).node?.nodeEpoch).toBe(nodeEpoch + 1n);
    return { relay, other, own, kept, mounted, app };
  };
  it("[I2] [I3] [I6] its host boots at once, before its connections are found dead: it repeats the call, and mounts what it had", async () => {
    const { relay, own, kept, mounted, app } = await bootsWith("booted", false);
    const again = await until("the claim to be as it was", async () => {
      const claim = await claimNow(kept.uid);
      return claim?.state === ClaimState.CLAIM_STATE_ACTIVE && claim.degradedSince === undefined ? claim : undefined;
    });
    expect(again).toMatchObject({ epoch: kept.epoch, hostPath: kept.hostPath });
    expect(await mountCallsOf(own)).toEqual([...mounted, "NodeStageVolume", "NodePublishVolume"]);
    await ended("booted", own);
    await app.stop();
    await hosts.asBefore(relay);
  });

  // The name of the relay belongs to the other machine afterwards.
  it("[I1] [I2] its host is made anew from an image: it repeats the call, and what the machine before it had is given to nobody", async () => {
    const { relay, other, own, kept, mounted } = await bootsWith("imaged", true);
    const { blocked } = await until("the claim to be blocked", async () => {
      const claim = await claimNow(kept.uid);
      return claim?.blocked === undefined ? undefined : claim;
    });
    expect(blocked?.reason).toBe("NODE_REPLACED");
    for (const node of [relay, other])
      await expect(claimVolume(cluster, own, { node, workload: "early" })).rejects.toMatchObject({
        reason: "CLAIM_CONFLICT",
      });
    expect(await mountCallsOf(own)).toEqual(mounted);
    const { uid: claimUid, workload } = kept;
    await cluster.claims.releaseClaims({ namespace, workload });
    const abandon = { namespace, volume: own, workload, claimUid, evidence: "it is gone", reason: "test" };
    const { outcome } = await cluster.repair.abandonClaim({ ...abandon, dryRun: true });
    await cluster.repair.abandonClaim({ ...abandon, confirm: outcome?.confirmWith ?? "" });
    await persistently("its detach", async () =>
      expect(stateName(await claimVolume(cluster, own, { node: other, workload: "next" }))).toBe("ACTIVE"),
    );
    await ended("imaged", own);
  });
});
