/**
 * Agents with a journal that outlives every controller, over the node half of the simulated plugin, which polices what they do: a stage
 * before the attachment, a detach under a mount. They honour permits and releases as the protocol says; they trust nobody's order.
 *
 * H1 A released or refused epoch is dead here for ever, and none below the floor begins. H2 "released" and "not mounted" are said when the
 * plugin has undone everything, never before.
 */

import type { AgentGateway, ReleaseOrder } from "@holdfast/controller/agent-ports";
import type { Claim } from "@holdfast/controller/domain/claim/claim";
import type { Permit, PublishAnswer, ReleaseAnswer } from "@holdfast/controller/domain/claim/permit";
import type { GrowAnswer } from "@holdfast/controller/domain/size/growth-change";
import { type CsiMethod, methods } from "@holdfast/csi/methods";
import { verdictOf } from "@holdfast/csi/outcome";
import type { WireFailure } from "@holdfast/csi/transport";
import { compareEpochs, type Epoch } from "@holdfast/model/epoch";
import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import {
  VolumeCapability_AccessMode_Mode as Mode,
  NodeExpandVolumeRequest,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  NodeUnpublishVolumeRequest,
  NodeUnstageVolumeRequest,
} from "@holdfast/shared/gen/csi/v1/csi";
import type { Backend } from "@holdfast/sim-plugin/backend/backend";
import { createSimWay, type SimWay, type WayFault } from "./sim-transport.ts";

/** What happens to a message between a controller and an agent. */
export type LinkFault = "lost" | "dropped";

interface Held {
  readonly claim: Claim;
  readonly epoch: Epoch;
  readonly target: string;
  /** `maybe`: a publish was sent and not undone for certain. */
  mount: "none" | "maybe" | "there";
  /** The plugin refused: it ends without a mount. */
  failure?: { readonly reason: string; readonly message: string; readonly code: string };
  leaving: boolean;
}

interface OnHost {
  readonly uid: string;
  readonly namespace: string;
  readonly id: string;
  readonly externalId: string;
  readonly staging: string;
  stage: "none" | "maybe" | "there";
  readonly held: Map<string, Held>;
}

interface Host {
  readonly node: string;
  readonly nodeId: string;
  way: SimWay;
  /** One per boot: what an earlier one was in the middle of is over. */
  boot: number;
  nodeEpoch: number;
  silent: boolean;
  readonly volumes: Map<string, OnHost>;
  readonly floors: Map<string, Epoch>;
  readonly dead: Set<string>;
}

export interface SimHosts extends AgentGateway {
  silence(node: string, silent: boolean): void;
  silent(node: string): boolean;
  /** Mounts are gone; the journal too if so told. */
  reboot(node: string, journalLost: boolean): void;
  /** As the agent learned it when it registered. */
  setNodeEpoch(node: string, nodeEpoch: number): void;
  chance(
    call: ((method: CsiMethod) => WayFault | undefined) | undefined,
    link: (() => LinkFault | undefined) | undefined,
  ): void;
  /** Storage that journals still hold. */
  held(): readonly string[];
}

export const nodeIdOf = (node: string): string => `i-${node}`;

/** The target of a claim ends with its uid. */
export const claimOfTarget = (target: string): string => target.slice(target.lastIndexOf("/") + 1);

const callMs = 120_000;
const epochText = ({ gen, ctr }: Epoch): string => `${gen}.${ctr}`;

type Stopped = { readonly kind: "stopped"; readonly failure: WireFailure; readonly how: "unknown" | "fail" | "block" };
const ok = { kind: "ok" } as const;

export const createSimHosts = (backend: Backend, names: readonly string[], clock: Clock): SimHosts => {
  let pick: ((method: CsiMethod) => WayFault | undefined) | undefined;
  let link: (() => LinkFault | undefined) | undefined;
  const never = new AbortController().signal;

  const wayOf = (nodeId: string): SimWay => {
    const way = createSimWay(backend, { name: `node ${nodeId}`, role: "node", node: nodeId }, clock);
    way.chance((method) => pick?.(method));
    return way;
  };
  const hosts = new Map<string, Host>(
    names.map((node) => {
      const nodeId = nodeIdOf(node);
      const host = { node, nodeId, way: wayOf(nodeId), boot: 0, nodeEpoch: 1, silent: false };
      return [node, { ...host, volumes: new Map(), floors: new Map(), dead: new Set<string>() }];
    }),
  );
  const lanes = createKeyedLanes();

  const hostOf = (node: string): Host => {
    const host = hosts.get(node);
    if (host === undefined) throw new Error(`there is no host ${node}`);
    return host;
  };

  /** Rejects when the host booted meanwhile: whoever asked gets no answer, and nothing here is touched any more. */
  const ask = async (host: Host, method: CsiMethod, request: object): Promise<typeof ok | Stopped> => {
    const { boot } = host;
    const reply = await host.way.call(method, request, { signal: never, deadlineMs: callMs });
    if (host.boot !== boot) throw new Error("the host booted");
    if ("response" in reply) return ok;
    const { outcome, then: next } = verdictOf(methods[method].callKind, reply.failure.code);
    if (outcome === "done") return ok;
    const how = outcome === "unknown" ? "unknown" : next === "block" ? "block" : "fail";
    return { kind: "stopped", failure: reply.failure, how };
  };

  const capabilityOf = ({ accessMode, fsType, mountFlags, volumeMountGroup }: Claim) => ({
    accessMode: { mode: accessMode === "UNKNOWN" ? Mode.UNKNOWN : Mode[accessMode] },
    mount: { fsType, mountFlags: [...mountFlags], volumeMountGroup },
  });

  const mount = async (host: Host, volume: OnHost, held: Held, permit: Permit): Promise<typeof ok | Stopped> => {
    const { claim, attachment } = permit;
    const volumeCapability = capabilityOf(claim);
    const publishContext = { ...attachment.publishContext };
    const volumeContext = { ...permit.volume.context };
    const common = { volumeId: volume.externalId, publishContext, volumeContext, volumeCapability };
    if (volume.stage !== "there") {
      const before = volume.stage;
      volume.stage = "maybe";
      const stagingTargetPath = volume.staging;
      const staged = await ask(
        host,
        "NodeStageVolume",
        NodeStageVolumeRequest.fromPartial({ ...common, stagingTargetPath }),
      );
      if (staged.kind === "stopped" && staged.how !== "unknown") volume.stage = before;
      if (staged.kind === "stopped") return staged;
      volume.stage = "there";
    }
    const before = held.mount;
    if (before !== "there") held.mount = "maybe";
    const request = { ...common, stagingTargetPath: volume.staging, targetPath: held.target, readonly: claim.readOnly };
    const published = await ask(host, "NodePublishVolume", NodePublishVolumeRequest.fromPartial(request));
    if (published.kind === "stopped" && published.how !== "unknown") held.mount = before;
    if (published.kind === "ok") held.mount = "there";
    return published;
  };

  /** H2 */
  const undo = async (host: Host, volume: OnHost, held: Held): Promise<typeof ok | Stopped> => {
    const volumeId = volume.externalId;
    if (held.mount !== "none") {
      const request = NodeUnpublishVolumeRequest.fromPartial({ volumeId, targetPath: held.target });
      held.mount = "maybe";
      const gone = await ask(host, "NodeUnpublishVolume", request);
      if (gone.kind === "stopped") return gone;
      held.mount = "none";
    }
    const others = [...volume.held.values()].some((other) => other !== held);
    if (!others && volume.stage !== "none") {
      const request = NodeUnstageVolumeRequest.fromPartial({ volumeId, stagingTargetPath: volume.staging });
      volume.stage = "maybe";
      const gone = await ask(host, "NodeUnstageVolume", request);
      if (gone.kind === "stopped") return gone;
      volume.stage = "none";
    }
    volume.held.delete(held.claim.uid);
    host.dead.add(`${volume.uid}/${epochText(held.epoch)}`);
    if (volume.held.size === 0) host.volumes.delete(volume.uid);
    return ok;
  };

  const expandOnHost = async (host: Host, volume: OnHost, bytes: number): Promise<GrowAnswer> => {
    const held = [...volume.held.values()].find((one) => one.mount === "there");
    if (held === undefined)
      return {
        kind: "not-here",
        failure: { reason: "VOLUME_NOT_HERE", message: "nothing is mounted", advice: "again" },
      };
    const grown = await ask(
      host,
      "NodeExpandVolume",
      NodeExpandVolumeRequest.fromPartial({
        volumeId: volume.externalId,
        volumePath: held.target,
        stagingTargetPath: volume.staging,
        capacityRange: { requiredBytes: BigInt(bytes) },
        volumeCapability: capabilityOf(held.claim),
      }),
    );
    if (grown.kind === "ok") return { kind: "grown", capacity: bytes };
    const { code, message } = grown.failure;
    const failure = { reason: code, message, code, method: "NodeExpandVolume" };
    if (grown.how === "unknown") return { kind: "unknown", failure: { ...failure, advice: "again" } };
    return { kind: "refused", failure: { ...failure, advice: grown.how } };
  };

  const uncertain = ({ code, message }: WireFailure): PublishAnswer => ({
    kind: "uncertain",
    reason: code,
    message,
    code,
  });

  const publish = async (host: Host, permit: Permit): Promise<PublishAnswer> => {
    const { claim, epoch, oldestLiveEpoch } = permit;
    const { uid } = permit.volume;
    if (permit.nodeEpoch !== host.nodeEpoch)
      return { kind: "refused", reason: "NODE_EPOCH", message: `this is node epoch ${host.nodeEpoch}` };
    const floor = host.floors.get(uid);
    let volume = host.volumes.get(uid);
    let held = volume?.held.get(claim.uid);
    if (host.dead.has(`${uid}/${epochText(epoch)}`))
      return { kind: "refused", reason: "DEAD", message: "it was released here" };
    if (held === undefined && floor !== undefined && compareEpochs(epoch, floor) < 0)
      return { kind: "refused", reason: "FLOOR", message: `the floor is ${epochText(floor)}` };
    if (held?.leaving === true && held.failure === undefined)
      return { kind: "refused", reason: "DEAD", message: "its release has begun here" };
    if (floor === undefined || compareEpochs(oldestLiveEpoch, floor) > 0) host.floors.set(uid, oldestLiveEpoch);
    if (volume === undefined) {
      const { namespace, id, externalId } = permit.volume;
      volume = { uid, namespace, id, externalId, staging: `/staging/${uid}`, stage: "none", held: new Map() };
      host.volumes.set(uid, volume);
    }
    if (held === undefined) {
      held = { claim, epoch, target: `/mnt/${claim.uid}`, mount: "none", leaving: false };
      volume.held.set(claim.uid, held);
    }
    if (held.failure === undefined) {
      // What is mounted is looked at, and not asked of the plugin again: another controller may send the same permit later.
      const end = held.mount === "there" ? ok : await mount(host, volume, held, permit);
      if (end.kind === "ok") {
        const growth =
          permit.expandTo === undefined ? undefined : await expandOnHost(host, volume, permit.expandTo.required);
        const publication = { hostPath: held.target, mountId: 7 };
        return { kind: "published", publication, ...(growth === undefined ? {} : { growth }) };
      }
      if (end.how === "unknown") return uncertain(end.failure);
      const { code, message } = end.failure;
      if (end.how === "block") {
        const blocked = { reason: "PLUGIN_REFUSED", missingProof: "that the plugin can do this", clearWith: "ask it" };
        return { ...uncertain(end.failure), kind: "uncertain", reason: "PLUGIN_REFUSED", message, blocked };
      }
      held.failure = { reason: "PLUGIN_REFUSED", message, code };
      held.leaving = true;
    }
    const undone = await undo(host, volume, held);
    return undone.kind === "ok" ? { kind: "not-mounted", ...held.failure } : uncertain(undone.failure);
  };

  const release = async (host: Host, order: ReleaseOrder): Promise<ReleaseAnswer> => {
    if (order.nodeEpoch !== host.nodeEpoch)
      return { kind: "refused", reason: "NODE_EPOCH", message: `this is node epoch ${host.nodeEpoch}` };
    const volume = host.volumes.get(order.volumeUid);
    const held = volume?.held.get(order.claimUid);
    if (volume === undefined || held === undefined) {
      host.dead.add(`${order.volumeUid}/${epochText(order.epoch)}`);
      return { kind: "released" };
    }
    held.leaving = true;
    const undone = await undo(host, volume, held);
    if (undone.kind === "ok") return { kind: "released" };
    const { code, message } = undone.failure;
    return { kind: "pending", reason: code, message, code, blocked: undone.how !== "unknown" };
  };

  /** One order of a volume at a time on a host; the order is carried out whether or not somebody waits for its answer. */
  const ordered = async <T>(
    node: string,
    uid: string,
    signal: AbortSignal,
    lost: T,
    act: (host: Host) => Promise<T>,
  ) => {
    signal.throwIfAborted();
    const host = hostOf(node);
    const how = link?.();
    await Promise.resolve();
    if (host.silent || how === "dropped") return lost;
    const gone = Promise.withResolvers<T>();
    const abort = (): void => gone.resolve(lost);
    signal.addEventListener("abort", abort, { once: true });
    const work = lanes.run(`${node} ${uid}`, never, () => act(host)).catch(() => lost);
    const answer = await Promise.race([work, gone.promise]);
    signal.removeEventListener("abort", abort);
    return host.silent || how === "lost" ? lost : answer;
  };

  const noAnswer = { reason: "UNAVAILABLE", message: "no answer" };

  return {
    publish: ({ name }, permit, { signal }) =>
      ordered<PublishAnswer>(name, permit.volume.uid, signal, { kind: "uncertain", ...noAnswer }, (host) =>
        publish(host, permit),
      ),
    release: ({ name }, order, { signal }) =>
      ordered<ReleaseAnswer>(name, order.volumeUid, signal, { kind: "pending", blocked: false, ...noAnswer }, (host) =>
        release(host, order),
      ),
    expand: ({ name }, { volume, capacity }, { signal }) =>
      ordered<GrowAnswer>(
        name,
        volume.uid,
        signal,
        { kind: "unknown", failure: { ...noAnswer, advice: "again" } },
        async (host) => {
          const there = host.volumes.get(volume.uid);
          if (there !== undefined) return await expandOnHost(host, there, capacity.required);
          return {
            kind: "not-here",
            failure: { reason: "VOLUME_NOT_HERE", message: "it is not here", advice: "again" },
          };
        },
      ),
    stats: async () => [],
    async promise({ name }, vetting) {
      if (hostOf(name).silent) throw new Error(`agent ${name} does not answer`);
      return { vetting, openCalls: [] };
    },
    inventory: async ({ name, journalUid }) => {
      const host = hostOf(name);
      if (host.silent) throw new Error(`agent ${name} does not answer`);
      const volumes = [...host.volumes.values()].map(({ uid, namespace, id, externalId, held }) => ({
        namespace,
        volume: id,
        volumeUid: uid,
        externalId,
        plugin: "",
        held: [...held].map(([claimUid, { claim, epoch, mount }]) => ({
          claimUid,
          workload: claim.workload,
          alias: claim.alias,
          epoch,
          state: mount === "there" ? "PUBLISHED" : "PERMITTED",
        })),
      }));
      return { node: name, journalUid, nodeEpoch: host.nodeEpoch, volumes, orphans: [] };
    },
    silence(node, silent) {
      hostOf(node).silent = silent;
    },
    silent: (node) => hostOf(node).silent,
    reboot(node, journalLost) {
      const host = hostOf(node);
      host.boot += 1;
      backend.reboot(host.nodeId);
      host.way = wayOf(host.nodeId);
      for (const volume of host.volumes.values()) {
        volume.stage = "none";
        for (const held of volume.held.values()) held.mount = "none";
      }
      if (!journalLost) return;
      host.volumes.clear();
      host.floors.clear();
      host.dead.clear();
    },
    setNodeEpoch(node, nodeEpoch) {
      hostOf(node).nodeEpoch = nodeEpoch;
    },
    chance(call, between) {
      pick = call;
      link = between;
    },
    held: () => [...hosts.values()].flatMap(({ volumes }) => [...volumes.values()].map(({ externalId }) => externalId)),
  };
};
