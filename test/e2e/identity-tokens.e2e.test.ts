/**
 * A volume with identity tokens: the simulated plugin verifies each by the JWKS that the controller serves, they are renewed before they
 * end, and nothing is unmounted for it. REPUBLISH_FAILING: what is printed is done, and it is gone.
 */
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { DeepPartial } from "@holdfast/shared/gen/holdfast/v1/common";
import { type PluginProfile, PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient, type GrpcChannel } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cliRun } from "../cli/cli-run.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  namespace,
  persistently,
  plugin,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { freePort } from "../support/free-port.ts";
import { tokenKeyLine } from "../support/token-keys.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const issuer = "https://tokens.example.com";
/** How every token begins: the base64url of what each header has first. */
const beginning = Buffer.from('{"alg":"ES256","typ":"JWT","kid":').toString("base64url").slice(0, -2);
const second = { seconds: 1n, nanos: 0 };
const wanted: DeepPartial<PluginProfile> = {
  tokenRequests: [{ audience: "vault", expiration: { seconds: 600n, nanos: 0 } }],
  requiresRepublish: true,
  republishInterval: second,
};

describe.skipIf(!root)("identity tokens", () => {
  let cluster: Cluster;
  let channel: GrpcChannel;
  let dir: string;
  let jwks: string;
  const old = { now: false };
  const firstKey = tokenKeyLine("k1");
  const putKeys = (...lines: readonly string[]) =>
    writeFile(path.join(dir, "keys"), `${lines.join("\n")}\n`, { mode: 0o600 });

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-token-keys-"));
    await putKeys(firstKey);
    const listen = `127.0.0.1:${await freePort()}`;
    jwks = `http://${listen}/openid/v1/jwks`;
    cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      logLevel: "debug",
      controllerEnv: {
        HOLDFAST_TOKEN_KEYS: path.join(dir, "keys"),
        HOLDFAST_TOKEN_ISSUER: issuer,
        HOLDFAST_OIDC_LISTEN: listen,
      },
      verifyTokens: () => ({ jwks, issuer, audience: "vault", old: old.now }),
    });
    channel = createGrpcChannel(cluster.address);
  });
  afterAll(async () => {
    channel?.close();
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const setProfile = (profile: DeepPartial<PluginProfile>) =>
    createGrpcClient(PluginServiceDefinition, channel, {
      log: createMemoryLogger(),
      identity: { role: "operator", name: "ada" },
    }).setPluginProfile({ name: plugin, profile });
  /** Those that were answered. */
  const nodeCalls = async (method: string) =>
    (await cluster.backend.client.record()).filter((call) => call.method === method && call.code !== undefined);
  const published = () => nodeCalls("NodePublishVolume");
  const morePublished = async (count: number) => {
    const before = (await published()).length;
    return await until(`${count} more publications`, async () => {
      const now = await published();
      return now.length >= before + count ? now : undefined;
    });
  };
  const servedKeys = async () =>
    ((await (await fetch(jwks)).json()) as { readonly keys: readonly { readonly kid: string }[] }).keys;
  const claimNow = async (id: string) =>
    (await cluster.claims.listClaims({ filter: { namespace, volume: id } })).claims[0];
  const undone = async () =>
    (await Promise.all(["NodeUnpublishVolume", "NodeUnstageVolume"].map(nodeCalls))).map((calls) => calls.length);

  it("are verified by the plugin, renewed, and no republication unmounts or stages anything", async () => {
    await setProfile(wanted);
    await makeVolume(cluster, "told");
    const claim = await claimVolume(cluster, "told");
    expect(stateName(claim)).toBe("ACTIVE");
    const calls = await morePublished(2);
    for (const { token, code, request } of calls) {
      expect(code).toBe("OK");
      expect(token).toMatchObject({
        ...{ iss: issuer, aud: ["vault"], sub: `system:holdfast:workload:${namespace}:w-told` },
        ...{ namespace, workload: "w-told", node: "node-a", volume: "told" },
      });
      expect(JSON.stringify(request)).toContain('"keys":["csi.storage.k8s.io/serviceAccount.tokens"]');
      expect(JSON.stringify(request)).not.toContain(beginning);
    }
    expect(new Set(calls.map(({ token }) => token?.["jti"])).size).toBe(calls.length);
    expect(await undone()).toEqual([0, 0]);
    expect(await nodeCalls("NodeStageVolume")).toHaveLength(1);
    expect(await cluster.backend.client.violations()).toEqual([]);
  });

  it("are signed by a new first key without a restart, and the old one is published while a token of it lives", async () => {
    const [before] = await servedKeys();
    await putKeys(tokenKeyLine("k2"));
    const calls = await morePublished(2);
    expect(calls.at(-1)?.code).toBe("OK");
    const kids = (await servedKeys()).map(({ kid }) => kid);
    expect(kids).toHaveLength(2);
    expect(kids).toContain(before?.kid);
    expect(kids[0]).not.toBe(before?.kid);
  });

  it("are renewed after a restart of the agent, without a stage or an undo", async () => {
    await cluster.node("node-a").agent().kill("SIGKILL");
    await cluster.node("node-a").startAgent();
    await morePublished(2);
    expect(await undone()).toEqual([0, 0]);
    expect(await nodeCalls("NodeStageVolume")).toHaveLength(1);
  });

  it("that cannot be renewed leave the mount, and say so until it is well: REPUBLISH_FAILING", async () => {
    const { hostPath = "" } = (await claimNow("told")) ?? {};
    await cluster.backend.client.setFaults([
      { method: "NodePublishVolume", code: "INVALID_ARGUMENT", times: "always" },
    ]);
    const blocked = await until("the claim to say so", async () => {
      const found = (await claimNow("told"))?.blocked;
      return found?.reason === "REPUBLISH_FAILING" ? found : undefined;
    });
    const { out } = await cliRun(["volume", "explain", "told", "--namespace", namespace], { address: cluster.address });
    expect(out).toContain("REPUBLISH_FAILING");
    expect(out).toContain("mounted on node-a, and NodePublishVolume cannot be repeated");
    expect(out).toContain(blocked.clearWith);
    expect((await claimNow("told"))?.state).toBe(ClaimState.CLAIM_STATE_ACTIVE);
    await writeFile(path.join(hostPath, "kept"), "x");
    await morePublished(2);
    expect(await undone()).toEqual([0, 0]);
    // What the message names is corrected.
    await cluster.backend.client.setFaults([]);
    await until(
      "it to be over",
      async () => ((await claimNow("told"))?.blocked === undefined ? true : undefined),
      60_000,
    );
    expect(await readFile(path.join(hostPath, "kept"), "utf8")).toBe("x");
  });

  it("are asked for at once when the profile changes, and no more after the release", async () => {
    await setProfile({ ...wanted, republishInterval: { seconds: 3600n, nanos: 0 } });
    await morePublished(1);
    await setProfile(wanted);
    await morePublished(2);
    await releaseWorkload(cluster, "w-told");
    await removeVolume(cluster, "told");
    const count = (await published()).length;
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await published()).toHaveLength(count);
    await expectClean(cluster);
  });

  it("that nobody can sign block the claim, and nothing reaches the node: TOKENS_UNSIGNED", async () => {
    await makeVolume(cluster, "unsigned");
    await chmod(path.join(dir, "keys"), 0o644);
    const before = (await published()).length;
    await cluster.claims.createClaims({
      ...{ namespace, workload: "w-unsigned", node: "node-a" },
      claims: [{ volume: "unsigned" }],
    });
    const blocked = await until("the claim to say so", async () => (await claimNow("unsigned"))?.blocked);
    expect(blocked.reason).toBe("TOKENS_UNSIGNED");
    expect(blocked.message).toContain(`chmod 600 ${path.join(dir, "keys")}`);
    await chmod(path.join(dir, "keys"), 0o600);
    const active = async () => (await claimNow("unsigned"))?.state === ClaimState.CLAIM_STATE_ACTIVE || undefined;
    await until("it to go on by itself", active, 90_000);
    expect((await published()).length).toBeGreaterThan(before);
    await releaseWorkload(cluster, "w-unsigned");
    await removeVolume(cluster, "unsigned");
    await expectClean(cluster);
  });

  it("stand in volume_context for a plugin alone whose profile says that it is old", async () => {
    await cluster.node("node-a").plugin().kill("SIGKILL");
    old.now = true;
    await cluster.node("node-a").startPlugin();
    await setProfile({ ...wanted, tokensInVolumeContext: true });
    await makeVolume(cluster, "aged");
    const claim = await persistently("the plugin to be known", () => claimVolume(cluster, "aged"));
    expect(stateName(claim)).toBe("ACTIVE");
    const [call] = (await morePublished(1)).slice(-1);
    expect(JSON.stringify(call?.request)).toContain(beginning);
    await releaseWorkload(cluster, "w-aged");
    await removeVolume(cluster, "aged");
    await expectClean(cluster);
  });

  it("are in no log, metric, store, journal or event", async () => {
    const metrics = await Promise.all(
      [cluster.controller(), cluster.node("node-a").agent()].map(async (service) => {
        const line = await service.line((l) => l["message"] === "admin listening", "its admin address");
        return (await fetch(`http://${String(line["address"])}/metrics`)).text();
      }),
    );
    expect(metrics.join()).toContain("holdfast_republications_total");
    const entries = await readdir(cluster.dir, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
    expect(files.length).toBeGreaterThan(3);
    const texts = await Promise.all(files.map((file) => readFile(file, "latin1")));
    for (const form of [
      beginning,
      Buffer.from(beginning).toString("hex"),
      Buffer.from(beginning).toString("base64url"),
    ])
      expect([cluster.output(), ...metrics, ...texts].filter((text) => text.includes(form))).toEqual([]);
  });
});
