/** Agents with journals and mounts that outlive every controller: they honour permits as the protocol says and police their caller. */

import type { AgentGateway } from "@holdfast/controller/agent-ports";
import type { AgentBlock } from "@holdfast/controller/domain/blocked";
import type { Claim } from "@holdfast/controller/domain/claim/claim";
import type { Inventory, PublishAnswer, ReleaseAnswer } from "@holdfast/controller/domain/claim/permit";
import type { GrowAnswer } from "@holdfast/controller/domain/size/growth-change";
import { type VolumeRecord, volumeKey } from "@holdfast/controller/domain/volume/volume";
import type { VolumeSample } from "@holdfast/controller/domain/volume/volume-sample";
import { accessConflict } from "@holdfast/model/access";
import { compareEpochs, type Epoch } from "@holdfast/model/epoch";

/** `lost` does the work and answers nothing certain, `dropped` does not even get the message. */
export type AgentMethod = "publish" | "release" | "expand";

export type AgentFault =
  | { readonly kind: "lost" }
  | { readonly kind: "dropped" }
  | { readonly kind: "not-mounted" }
  | { readonly kind: "refused"; readonly reason: string }
  /** `none`: of an agent of an earlier version, which names no cure. */
  | { readonly kind: "pending"; readonly blocked: boolean; readonly block?: AgentBlock | "none" }
  /** Released; the agent had to unmount these paths itself. */
  | { readonly kind: "unmounted"; readonly paths: readonly string[] }
  /** Of expand: what NodeExpandVolume answered, for certain. */
  | { readonly kind: "code"; readonly code: string };

interface Held {
  readonly claim: Claim;
  readonly volume: string;
  readonly volumeUid: string;
  readonly externalId: string;
  readonly epoch: Epoch;
  mounted: boolean;
}

export interface FakeAgents extends AgentGateway {
  script(method: AgentMethod, ...faults: readonly AgentFault[]): void;
  chance(pick: ((method: AgentMethod) => AgentFault | undefined) | undefined): void;
  readonly calls: readonly string[];
  readonly violations: readonly string[];
  /** `volume@node` of every mount. */
  mounts(): readonly string[];
  mounted(externalId: string, node: string): boolean;
  heldOn(node: string): readonly string[];
  /** The host boots: mounts are gone, the journal is not. */
  reboot(node: string): void;
  /** The state directory is gone. */
  loseJournal(node: string): void;
  /** Nothing is remembered of what was released. */
  forgetReleases(): void;
  /** A local release that no controller asked for. */
  releaseLocally(node: string, claimUid: string): void;
  /** Bytes that a node's file system has, `volume@node`. */
  grown(): Readonly<Record<string, number>>;
  /** What the agents measure; the default is nothing unusual. */
  measure(make: ((node: string, volumeUid: string) => Partial<VolumeSample>) | undefined): void;
  /** A mount that no journal explains. */
  leaveMount(node: string, path: string): void;
  /** Every claim of the volume that is ACTIVE was granted and mounted before the test began. */
  hold(volume: VolumeRecord): void;
  /** The agent holds the volume, whatever the records say. */
  holdFor(node: string, externalId: string, volumeUid: string): void;
  /** Stats are answered when it resolves. */
  hangStats(until: Promise<void> | undefined): void;
  /** No answer comes from it any more. */
  silence(node: string, silent: boolean): void;
}

export interface AgentDeps {
  readonly attached: (externalId: string, node: string) => boolean;
  /** Plugins without ControllerPublish mount without an attachment. */
  readonly attaches: () => boolean;
}

const uncertain: PublishAnswer = { kind: "uncertain", reason: "UNAVAILABLE", message: "no answer" };
const noAnswer: ReleaseAnswer = { kind: "pending", reason: "UNAVAILABLE", message: "no answer", blocked: false };
const heldBlock: AgentBlock = {
  reason: "MOUNT_HELD",
  missingProof: "that process 42 no longer has the mount",
  clearWith: "end process 42, or what started it: kill 42",
};

const heldAnswer = (blocked: boolean, block: AgentBlock | "none" = heldBlock): ReleaseAnswer => {
  const told = block === "none" ? heldBlock : block;
  const answer = { kind: "pending", reason: told.reason, message: "held by pid 42 (tail)", blocked } as const;
  return blocked && block !== "none" ? { ...answer, block } : answer;
};

const epochText = (e: Epoch) => `${e.gen}.${e.ctr}`;

export const createFakeAgents = ({ attached, attaches }: AgentDeps): FakeAgents => {
  const held = new Map<string, Map<string, Held>>();
  /** The same by volume: who else has it mounted is asked at every mount, however many nodes there are. */
  const ofVolume = new Map<string, Set<Held>>();
  const floors = new Map<string, Epoch>();
  const dead = new Set<string>();
  const silent = new Set<string>();
  const left = new Map<string, string[]>();
  const calls: string[] = [];
  const violations: string[] = [];
  const sizes = new Map<string, number>();
  let statsHang: Promise<void> | undefined;
  let measured: ((node: string, volumeUid: string) => Partial<VolumeSample>) | undefined;
  const scripts = new Map<string, AgentFault[]>();
  let pick: ((method: AgentMethod) => AgentFault | undefined) | undefined;

  const on = (node: string): Map<string, Held> => {
    const known = held.get(node);
    if (known !== undefined) return known;
    const fresh = new Map<string, Held>();
    held.set(node, fresh);
    return fresh;
  };

  const all = () => [...held].flatMap(([node, claims]) => [...claims.values()].map((h) => ({ node, ...h })));

  const drop = (node: string, uid: string): void => {
    const known = on(node).get(uid);
    if (known === undefined) return;
    on(node).delete(uid);
    const others = ofVolume.get(known.volumeUid);
    others?.delete(known);
    if (others?.size === 0) ofVolume.delete(known.volumeUid);
  };

  const put = (node: string, next: Held): void => {
    drop(node, next.claim.uid);
    on(node).set(next.claim.uid, next);
    const others = ofVolume.get(next.volumeUid) ?? new Set();
    ofVolume.set(next.volumeUid, others.add(next));
  };

  const fault = (method: AgentMethod) => scripts.get(method)?.shift() ?? pick?.(method);

  const mount = (node: string, next: Held): void => {
    for (const other of ofVolume.get(next.volumeUid) ?? [])
      if (other.mounted && other.claim.uid !== next.claim.uid) {
        const why = accessConflict(next.claim, other.claim);
        if (why !== undefined)
          violations.push(
            `[I1] ${next.volume} mounted for ${next.claim.workload} beside ${other.claim.workload}: ${why}`,
          );
      }
    if (attaches() && !attached(next.externalId, node))
      violations.push(`[I5] ${next.volume} mounted on ${node} without attachment`);
    next.mounted = true;
    put(node, next);
  };

  const publish: AgentGateway["publish"] = async ({ name }, permit, { signal }) => {
    signal.throwIfAborted();
    const key = volumeKey(permit.volume);
    const { uid } = permit.claim;
    calls.push(`publish ${key} ${uid} ${epochText(permit.epoch)} on ${name}`);
    const how = fault("publish");
    await Promise.resolve();
    if (silent.has(name) || how?.kind === "dropped") return uncertain;
    if (how?.kind === "pending" && typeof how.block === "object") return { ...uncertain, blocked: how.block };
    const pair = `${permit.volume.uid}@${name}`;
    const floor = floors.get(pair);
    const known = on(name).get(uid);
    if (how?.kind === "refused") return { kind: "refused", reason: how.reason, message: "as scripted" };
    if (known === undefined && dead.has(`${pair}/${epochText(permit.epoch)}`))
      return { kind: "refused", reason: "DEAD", message: `epoch ${epochText(permit.epoch)} was released here` };
    if (known === undefined && floor !== undefined && compareEpochs(permit.epoch, floor) < 0)
      return { kind: "refused", reason: "FLOOR", message: `epoch ${epochText(permit.epoch)} is below the floor` };
    if (floor === undefined || compareEpochs(permit.oldestLiveEpoch, floor) > 0)
      floors.set(pair, permit.oldestLiveEpoch);
    if (how?.kind === "not-mounted") {
      drop(name, uid);
      dead.add(`${pair}/${epochText(permit.epoch)}`);
      return {
        kind: "not-mounted",
        reason: "PLUGIN_REFUSED",
        message: "NodeStageVolume refused",
        code: "INVALID_ARGUMENT",
      };
    }
    mount(name, {
      claim: permit.claim,
      volume: key,
      volumeUid: permit.volume.uid,
      externalId: permit.volume.externalId,
      epoch: permit.epoch,
      mounted: true,
    });
    const growth =
      permit.expandTo === undefined ? undefined : grow(name, key, permit.volume.uid, permit.expandTo.required);
    if (how?.kind === "lost") return uncertain;
    return {
      kind: "published",
      publication: { hostPath: `/mnt/${uid}`, mountId: 7 },
      ...(growth === undefined ? {} : { growth }),
    };
  };

  const onHost = (node: string, volumeUid: string): boolean =>
    [...on(node).values()].some((h) => h.volumeUid === volumeUid && h.mounted);

  const failure = (code: string, advice: "again" | "fail" | "block") => ({
    reason: code,
    message: `NodeExpandVolume answered ${code}`,
    advice,
    method: "NodeExpandVolume",
    code,
  });

  const grow = (node: string, key: string, volumeUid: string, bytes: number): GrowAnswer => {
    calls.push(`expand ${key} ${bytes} on ${node}`);
    const how = fault("expand");
    if (silent.has(node) || how?.kind === "dropped")
      return { kind: "unknown", failure: failure("UNAVAILABLE", "again") };
    if (!onHost(node, volumeUid))
      return { kind: "not-here", failure: { ...failure("", "again"), reason: "VOLUME_NOT_HERE" } };
    if (how?.kind === "code")
      return {
        kind: "refused",
        failure: failure(how.code, how.code === "FAILED_PRECONDITION" ? "block" : "fail"),
      };
    sizes.set(`${key}@${node}`, Math.max(sizes.get(`${key}@${node}`) ?? 0, bytes));
    if (how?.kind === "lost") return { kind: "unknown", failure: failure("DEADLINE_EXCEEDED", "again") };
    return { kind: "grown", capacity: bytes };
  };

  const letGo = (node: string, uid: string, volumeUid: string, epoch: Epoch): void => {
    drop(node, uid);
    dead.add(`${volumeUid}@${node}/${epochText(epoch)}`);
  };

  const release: AgentGateway["release"] = async ({ name }, order, { signal }) => {
    signal.throwIfAborted();
    calls.push(`release ${order.namespace}/${order.volume} ${order.claimUid} ${epochText(order.epoch)} on ${name}`);
    const how = fault("release");
    await Promise.resolve();
    if (silent.has(name) || how?.kind === "dropped") return noAnswer;
    if (how?.kind === "pending") return heldAnswer(how.blocked, how.block);
    if (how?.kind === "refused") return { kind: "refused", reason: how.reason, message: "as scripted" };
    letGo(name, order.claimUid, order.volumeUid, order.epoch);
    if (how?.kind === "unmounted") return { kind: "released", unmounted: how.paths };
    return how?.kind === "lost" ? noAnswer : { kind: "released" };
  };

  return {
    publish,
    release,
    expand: async ({ name }, { volume, capacity }, { signal }) => {
      signal.throwIfAborted();
      await Promise.resolve();
      return grow(name, volumeKey(volume), volume.uid, capacity.required);
    },
    stats: async ({ name }, uids) => {
      calls.push(`stats ${name} ${uids.length}`);
      await statsHang;
      if (silent.has(name)) throw new Error(`agent ${name} does not answer`);
      const asked = uids.length > 0 ? uids : [...on(name).values()].map((h) => h.volumeUid);
      return [...new Set(asked)].map((volumeUid) =>
        onHost(name, volumeUid)
          ? { volumeUid, usage: [], measuredAt: 1, ...measured?.(name, volumeUid) }
          : { volumeUid, usage: [], error: { reason: "VOLUME_NOT_HERE", message: "nothing is published", at: 1 } },
      );
    },
    async promise({ name }, vetting) {
      calls.push(`promise ${name} ${vetting.gen}`);
      if (silent.has(name)) throw new Error(`agent ${name} does not answer`);
      return { vetting, openCalls: [] };
    },
    inventory: async ({ name, journalUid, nodeEpoch }): Promise<Inventory> => {
      calls.push(`inventory ${name}`);
      if (silent.has(name)) throw new Error(`agent ${name} does not answer`);
      const volumes = [...on(name).values()].map((h) => ({
        namespace: h.volume.split("/")[0] ?? "",
        volume: h.volume.split("/")[1] ?? "",
        volumeUid: h.volumeUid,
        externalId: h.externalId,
        plugin: "csi.example",
        held: [
          {
            claimUid: h.claim.uid,
            workload: h.claim.workload,
            alias: h.claim.alias,
            epoch: h.epoch,
            state: h.mounted ? "PUBLISHED" : "PERMITTED",
          },
        ],
      }));
      return { node: name, journalUid, nodeEpoch, volumes, orphans: left.get(name) ?? [] };
    },
    script(method, ...faults) {
      scripts.set(method, [...(scripts.get(method) ?? []), ...faults]);
    },
    chance(next) {
      pick = next;
    },
    calls,
    violations,
    mounts: () =>
      all()
        .filter((h) => h.mounted)
        .map((h) => `${h.volume}@${h.node}`),
    mounted: (externalId, node) => [...on(node).values()].some((h) => h.mounted && h.externalId === externalId),
    heldOn: (node) => [...on(node).keys()],
    reboot(node) {
      for (const h of on(node).values()) h.mounted = false;
    },
    loseJournal(node) {
      for (const uid of [...on(node).keys()]) drop(node, uid);
    },
    forgetReleases() {
      dead.clear();
      floors.clear();
    },
    releaseLocally(node, claimUid) {
      const known = on(node).get(claimUid);
      if (known !== undefined) letGo(node, claimUid, known.volumeUid, known.epoch);
    },
    grown: () => Object.fromEntries(sizes),
    measure(make) {
      measured = make;
    },
    hangStats(until) {
      statsHang = until;
    },
    leaveMount(node, path) {
      left.set(node, [...(left.get(node) ?? []), path]);
    },
    hold(volume) {
      const { uid: volumeUid, externalId } = volume;
      for (const claim of Object.values(volume.claims))
        if (claim.state === "ACTIVE" && claim.epoch !== undefined)
          put(claim.node, {
            claim,
            volume: volumeKey(volume),
            volumeUid,
            externalId,
            epoch: claim.epoch,
            mounted: true,
          });
    },
    holdFor(node, externalId, volumeUid) {
      const claim = { uid: "somebody", workload: "somebody" } as Claim;
      const epoch = { gen: 1, ctr: 1 };
      put(node, { claim, volume: "other/other", volumeUid, externalId, epoch, mounted: true });
    },
    silence(node, is) {
      if (is) silent.add(node);
      else silent.delete(node);
    },
  };
};
