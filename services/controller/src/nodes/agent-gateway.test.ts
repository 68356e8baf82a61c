import { systemClock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  type DeepPartial,
  HeldState,
  type InventoryResponse,
  type PublishRequest,
  type PublishResponse,
  RefusalReason,
  type ReleaseRequest,
  type ReleaseResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { AccessMode, AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { DialledAgent } from "../../../../test/support/controller/dial-agent.ts";
import { createLinkHub, type LinkHub } from "../../../../test/support/controller/link-hub.ts";
import type { Permit } from "../domain/claim/permit.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import type { Publishing } from "../domain/plugin/publishing.ts";
import { attachmentRecord, claimRecord, volumeRecord } from "../domain/testing/record-fixtures.ts";
import { createAgentGateway, type NodeAgentGateway } from "./agent-gateway.ts";
import { createPermitWords } from "./permit-words.ts";

const epoch = { gen: 2, ctr: 9 };
const wire = { gen: 2n, ctr: 9n };
const canary = "canary-8812aa77";

interface Script {
  publish: (request: PublishRequest, context: CallContext) => Promise<DeepPartial<PublishResponse>>;
  release: (request: ReleaseRequest) => Promise<DeepPartial<ReleaseResponse>>;
  inventory: readonly DeepPartial<InventoryResponse>[];
}

let script: Script;
let hub: LinkHub;
let agent: DialledAgent;
let gateway: NodeAgentGateway;
let files: Record<string, Record<string, string>>;
let wanted: Publishing;
/** Why no token can be signed. */
let unsigned: string | undefined;

const linked = (): Promise<DialledAgent> =>
  hub.linked({
    serve: {
      publish: (request, context) => script.publish(request, context),
      release: (request) => script.release(request),
      async *inventory() {
        yield* script.inventory;
      },
    },
  });

beforeEach(async () => {
  script = {
    publish: async () => ({ published: { hostPath: "/m/1", mountId: 7n, epoch: wire } }),
    release: async () => ({ released: { epoch: wire } }),
    inventory: [],
  };
  files = {};
  hub = await createLinkHub();
  agent = await linked();
  const secrets = {
    async resolve(ref: string | undefined) {
      if (ref === "file:/gone") throw new Error("secret file:/gone cannot be read");
      if (ref === "file:/none")
        throw new HoldfastError({
          kind: "precondition",
          reason: "SECRET_NOT_FOUND",
          message: "secret file:/none is gone",
        });
      return ref === undefined ? {} : (files[ref] ?? {});
    },
  };
  wanted = { tokens: [], inVolumeContext: false, againMs: 0 };
  unsigned = undefined;
  gateway = createAgentGateway({
    secrets,
    permitWords: createPermitWords({ secrets, publishing: { of: () => wanted, trouble: async () => unsigned } }),
    streams: hub.streams,
    identity: { role: "controller", name: "c1" },
    log: createMemoryLogger(),
    clock: systemClock,
    callDeadlineMs: 5_000,
  });
});

afterEach(() => hub.close());

const node = (change: Partial<NodeRecord> = {}): NodeRecord => ({
  name: "n1",
  machineId: "m",
  bootId: "b",
  journalUid: "j",
  instance: "i",
  nodeEpoch: 3,
  state: "READY",
  address: "",
  version: "1",
  verificationScope: "host",
  plugins: [],
  registeredAt: 0,
  updatedAt: 0,
  ...change,
});

const permit = (refs: Record<string, string> = {}): Permit => {
  const claim = claimRecord("c1", { epoch, fsType: "ext4", mountFlags: ["noatime"], readOnly: true });
  const attachment = attachmentRecord("n1", { publishContext: { device: "/dev/x" } });
  const volume = volumeRecord([claim], [attachment], { context: { pool: "p" }, secretRefs: refs });
  return { volume, claim, attachment, nodeEpoch: 3, epoch, oldestLiveEpoch: { gen: 2, ctr: 4 } };
};

const vetting = { gen: 5, uid: "vetting-5" };
const call = (signal: AbortSignal = new AbortController().signal) => ({ signal, attempt: 4, vetting });
const publish = (change: Record<string, string> = {}) => gateway.publish(node(), permit(change), call());

const order = {
  namespace: "ns",
  volume: "data",
  volumeUid: "volume-1",
  externalId: "ext-1",
  plugin: "model",
  claimUid: "c1",
  nodeEpoch: 3,
  epoch,
};

describe("a permit", () => {
  test("carries all that the agent needs, with the secrets of this push", async () => {
    const seen: PublishRequest[] = [];
    const callers: string[] = [];
    script.publish = async (request, context) => {
      seen.push(request);
      callers.push(`${context.identity.role}/${context.identity.name}`);
      return { published: { hostPath: "/m/1", mountId: 7n, epoch: wire } };
    };
    files = { "file:/stage": { a: "1" }, "file:/publish": { b: "2" } };
    const answer = await publish({ nodeStage: "file:/stage", nodePublish: "file:/publish" });
    expect(answer).toEqual({ kind: "published", publication: { hostPath: "/m/1", mountId: 7 } });
    expect(callers).toEqual(["controller/c1"]);
    expect(seen[0]?.permit).toEqual({
      namespace: "ns",
      volume: "data",
      volumeUid: "volume-1",
      externalId: "ext-1",
      plugin: "model",
      claimUid: "c1",
      workload: "workload-c1",
      alias: "data",
      node: "n1",
      nodeEpoch: 3n,
      epoch: wire,
      oldestLiveEpoch: { gen: 2n, ctr: 4n },
      accessMode: AccessMode.ACCESS_MODE_MULTI_NODE_MULTI_WRITER,
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      readOnly: true,
      fsType: "ext4",
      mountFlags: ["noatime"],
      volumeMountGroup: "",
      volumeContext: { pool: "p" },
      publishContext: { device: "/dev/x" },
      stageSecrets: { a: "1" },
      nodePublishSecrets: { b: "2" },
      expandTo: undefined,
      nodeExpandSecrets: {},
      attempt: 4,
      wantsTokens: false,
      republishMs: 0,
    });
  });

  test("is answered with the device of a block volume", async () => {
    script.publish = async () => ({
      published: { hostPath: "/m/1", mountId: 0n, epoch: wire, device: { path: "/m/1", major: 8, minor: 16 } },
    });
    expect(await publish()).toMatchObject({ publication: { device: { major: 8, minor: 16 } } });
  });

  test.each<[string, DeepPartial<PublishResponse>, object]>([
    [
      "not mounted",
      { notMounted: { reason: "PLUGIN_REFUSED", message: "no", csiCode: "INVALID_ARGUMENT", epoch: wire } },
      { kind: "not-mounted", reason: "PLUGIN_REFUSED", message: "no", code: "INVALID_ARGUMENT" },
    ],
    [
      "refused as one of another incarnation, which says nothing of the mount",
      { refused: { reason: RefusalReason.REFUSAL_REASON_NODE_EPOCH, message: "for 1, this is 2" } },
      { kind: "uncertain", reason: "NODE_EPOCH", message: "for 1, this is 2" },
    ],
    [
      "refused by a node that was fenced, which says nothing of the mount either",
      { refused: { reason: RefusalReason.REFUSAL_REASON_QUARANTINED, message: "fenced" } },
      { kind: "uncertain", reason: "QUARANTINED", message: "fenced" },
    ],
    [
      "refused",
      { refused: { reason: RefusalReason.REFUSAL_REASON_ACCESS_CONFLICT, message: "held", holderClaimUid: "c0" } },
      { kind: "refused", reason: "ACCESS_CONFLICT", message: "held (claim c0)" },
    ],
    [
      "uncertain",
      { uncertain: { reason: "INTERNAL", message: "hm", csiCode: "INTERNAL", blocked: { clearWith: "do this" } } },
      { kind: "uncertain", reason: "INTERNAL", message: "hm; do this", code: "INTERNAL" },
    ],
    [
      "an answer for another epoch",
      { published: { hostPath: "/m", epoch: { gen: 2n, ctr: 8n } } },
      { kind: "uncertain" },
    ],
    [
      "a refusal for another epoch",
      { notMounted: { reason: "X", epoch: { gen: 1n, ctr: 9n } } },
      { kind: "uncertain" },
    ],
    ["a mount without a path", { published: { hostPath: "", epoch: wire } }, { kind: "uncertain" }],
    ["nothing", {}, { kind: "uncertain" }],
  ])("%s", async (_what, response, answer) => {
    script.publish = async () => response;
    expect(await publish()).toMatchObject(answer);
  });

  test("whose secret cannot be read is not sent", async () => {
    let sent = false;
    script.publish = async () => {
      sent = true;
      return {};
    };
    expect(await publish({ nodeStage: "file:/gone" })).toMatchObject({ kind: "uncertain" });
    expect(sent).toBe(false);
  });

  test("whose secret is not there is blocked until somebody puts it right, for no repeat brings it", async () => {
    expect(await publish({ nodePublish: "file:/none" })).toMatchObject({
      kind: "uncertain",
      reason: "SECRET_NOT_FOUND",
      message: "secret file:/none is gone",
      blocked: { reason: "CREDENTIALS_REFUSED", clearWith: expect.stringContaining("correct the secret") },
    });
  });

  test("that wants tokens says so, and no token is in it", async () => {
    const seen: PublishRequest[] = [];
    script.publish = async (request) => {
      seen.push(request);
      return { published: { hostPath: "/m/1", mountId: 7n, epoch: wire } };
    };
    await publish({});
    wanted = { tokens: [{ audience: "vault", ttlSeconds: 600 }], inVolumeContext: false, againMs: 480_000 };
    await publish({});
    expect(seen.map(({ permit }) => [permit?.wantsTokens, permit?.republishMs])).toEqual([
      [false, 0],
      [true, 480_000],
    ]);
  });

  test("that wants tokens is blocked while nobody can sign them, and not sent", async () => {
    let sent = false;
    script.publish = async () => {
      sent = true;
      return {};
    };
    unsigned = "no key to sign identity tokens with is configured";
    wanted = { tokens: [{ audience: "vault", ttlSeconds: 600 }], inVolumeContext: false, againMs: 0 };
    expect(await publish({})).toMatchObject({
      reason: "TOKENS_UNSIGNED",
      message: unsigned,
      blocked: { reason: "TOKENS_UNSIGNED", clearWith: expect.stringContaining("HOLDFAST_TOKEN_KEYS") },
    });
    expect(sent).toBe(false);
  });

  test("what the agent says never repeats a secret of the push", async () => {
    files = { "file:/stage": { key: canary } };
    script.publish = async () => ({ uncertain: { reason: "INTERNAL", message: `bad key ${canary}` } });
    expect(JSON.stringify(await publish({ nodeStage: "file:/stage" }))).not.toContain(canary);
    script.publish = () => Promise.reject(new Error(canary));
    expect(JSON.stringify(await publish({ nodeStage: "file:/stage" }))).not.toContain(canary);
  });
});

describe("no answer", () => {
  test("from a node without a stream was not sent, is uncertain, and the next call finds the stream that began", async () => {
    agent.cut();
    await agent.over;
    await expect.poll(() => hub.service.load().streams).toBe(0);
    expect(await publish()).toMatchObject({
      kind: "uncertain",
      reason: "NOT_SENT",
      message: expect.stringContaining("the agent of node n1 has no stream to this controller"),
    });
    expect(await gateway.release(node(), order, call())).toMatchObject({
      kind: "pending",
      blocked: false,
      reason: "NOT_SENT",
    });
    await linked();
    expect((await publish()).kind).toBe("published");
  });

  test("A1 because the stream ended is uncertain: the agent may be at it", async () => {
    script.publish = async () => {
      agent.cut();
      return await new Promise(() => undefined);
    };
    expect(await publish()).toMatchObject({ kind: "uncertain", reason: "STREAM_ENDED" });
  });

  test("because the wait was given up is uncertain", async () => {
    script.publish = () => new Promise(() => undefined);
    const until = new AbortController();
    const answer = gateway.publish(node(), permit(), call(until.signal));
    until.abort(new DOMException("over", "AbortError"));
    expect(await answer).toMatchObject({ kind: "uncertain", reason: "CANCELLED" });
  });
});

describe("a release", () => {
  test("is proved only for the epoch that was asked about", async () => {
    const seen: ReleaseRequest[] = [];
    script.release = async (request) => {
      seen.push(request);
      return { released: { epoch: wire } };
    };
    expect(await gateway.release(node(), order, call())).toEqual({ kind: "released" });
    expect(seen[0]).toEqual({
      ...order,
      node: "n1",
      nodeEpoch: 3n,
      attempt: 4,
      epoch: wire,
      vetting: { gen: 5n, uid: "vetting-5" },
    });
    script.release = async () => ({ released: { epoch: { gen: 2n, ctr: 8n } } });
    expect(await gateway.release(node(), order, call())).toMatchObject({ kind: "pending", reason: "INTERNAL" });
  });

  test("that is blocked has the agent's own reason and cure, unchanged", async () => {
    const block = { reason: "STILL_MOUNTED", missingProof: "that /m/1 is no mount point", clearWith: "umount /m/1" };
    script.release = async () => ({
      pending: {
        reason: "STILL_MOUNTED",
        message: "/m/1 is still a mount point",
        blocked: true,
        holder: { pid: 4711n, command: "postgres", path: "/m/1" },
        block: { ...block, message: "/m/1 is still a mount point" },
        csiMethod: "NodeUnpublishVolume",
        csiCode: "OK",
      },
    });
    expect(await gateway.release(node(), order, call())).toMatchObject({
      kind: "pending",
      reason: "STILL_MOUNTED",
      message: "/m/1 is still a mount point",
      blocked: true,
      code: "OK",
      block,
    });
  });

  test("that took mounts away itself says which", async () => {
    script.release = async () => ({ released: { epoch: wire, unmounted: ["/m/1"] } });
    expect(await gateway.release(node(), order, call())).toEqual({ kind: "released", unmounted: ["/m/1"] });
  });

  test("that is held names the process, also by an agent that sends no block", async () => {
    script.release = async () => ({
      pending: {
        reason: "MOUNT_HELD",
        message: "in use",
        blocked: true,
        holder: { pid: 4711n, command: "postgres", path: "/m/1" },
      },
    });
    expect(await gateway.release(node(), order, call())).toEqual({
      kind: "pending",
      reason: "MOUNT_HELD",
      message: "in use; held by process 4711 (postgres) at /m/1",
      blocked: true,
    });
  });
});

describe("an inventory", () => {
  const header = { header: { node: "n1", journalUid: "j", bootId: "b", nodeEpoch: 3n } };
  const volume = {
    volume: {
      namespace: "ns",
      volume: "data",
      volumeUid: "volume-1",
      externalId: "ext-1",
      plugin: "model",
      held: [{ claimUid: "c1", workload: "w", alias: "a", epoch: wire, state: HeldState.HELD_STATE_PUBLISHED }],
    },
  };

  test.each([
    ["another boot", { bootId: "b2" }],
    ["another journal", { journalUid: "j2" }],
  ])("[I2] of %s on the stream of the node is not believed", async (_life, change) => {
    script.inventory = [{ header: { ...header.header, ...change } }, { end: { volumes: 0, orphans: 0 } }];
    const refused = gateway.inventory(node(), new AbortController().signal);
    await expect(refused).rejects.toMatchObject({ reason: "NODE_PENDING" });
  });

  test("is read whole", async () => {
    script.inventory = [header, volume, { orphan: { path: "/m/9" } }, { end: { volumes: 1, orphans: 1 } }];
    expect(await gateway.inventory(node(), new AbortController().signal)).toEqual({
      node: "n1",
      journalUid: "j",
      nodeEpoch: 3,
      volumes: [
        {
          namespace: "ns",
          volume: "data",
          volumeUid: "volume-1",
          externalId: "ext-1",
          plugin: "model",
          held: [{ claimUid: "c1", workload: "w", alias: "a", epoch, state: "PUBLISHED" }],
        },
      ],
      orphans: ["/m/9"],
    });
  });

  test("says how each claim is used, how far the epochs have come, and what was promised", async () => {
    const permit = {
      accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      readOnly: true,
      fsType: "xfs",
      nodeEpoch: 3n,
      mountId: 41n,
      target: "/m/data",
      releasing: true,
    };
    const told = { volume: { ...volume.volume, floor: wire, held: [{ ...volume.volume.held[0], ...permit }] } };
    script.inventory = [{ header: { ...header.header, promisedGen: 6n } }, told, { end: { volumes: 1, orphans: 0 } }];
    const { promisedGen, volumes } = await gateway.inventory(node(), new AbortController().signal);
    expect([promisedGen, volumes[0]?.floor]).toEqual([6, epoch]);
    expect(volumes[0]?.held[0]?.permit).toEqual({
      accessMode: "SINGLE_NODE_WRITER",
      attachmentMode: "FILE_SYSTEM",
      readOnly: true,
      fsType: "xfs",
      nodeEpoch: 3,
      mountId: 41,
      target: "/m/data",
      releasing: true,
    });
  });

  test.each<[string, readonly DeepPartial<InventoryResponse>[], string]>([
    ["without an end", [header, volume], "UNAVAILABLE"],
    ["with less than its end says", [header, volume, { end: { volumes: 2, orphans: 0 } }], "UNAVAILABLE"],
    ["without a header", [volume, { end: { volumes: 1, orphans: 0 } }], "UNAVAILABLE"],
    ["of another node", [{ header: { node: "n2" } }, { end: {} }], "NODE_MISMATCH"],
  ])("%s is none", async (_what, chunks, reason) => {
    script.inventory = chunks;
    await expect(gateway.inventory(node(), new AbortController().signal)).rejects.toMatchObject({ reason });
  });
});
