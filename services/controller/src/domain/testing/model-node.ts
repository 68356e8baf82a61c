import type { AccessMode, AttachmentMode } from "@holdfast/model/access";
import { compareEpochs, type Epoch, zeroEpoch } from "@holdfast/model/epoch";
import type { PublishAnswer, ReleaseAnswer } from "../claim/permit.ts";

export const publishFates = ["done", "fails", "half", "refused", "refused-stuck"] as const;
export type PublishFate = (typeof publishFates)[number];
export const releaseFates = ["done", "fails", "half", "blocked"] as const;
export type ReleaseFate = (typeof releaseFates)[number];

export interface PermitOrder {
  readonly volumeUid: string;
  readonly claimUid: string;
  readonly nodeEpoch: number;
  readonly epoch: Epoch;
  readonly oldestLiveEpoch: Epoch;
  readonly accessMode: AccessMode;
  readonly attachmentMode: AttachmentMode;
  readonly readOnly: boolean;
}

export interface ReleaseOrder {
  readonly volumeUid: string;
  readonly claimUid: string;
  readonly nodeEpoch: number;
  readonly epoch: Epoch;
}

export interface Mount extends PermitOrder {
  readonly mountId: number;
}

interface Held {
  readonly order: PermitOrder;
  /** Set = on its way out, and why, if it could never be mounted. */
  readonly leaving?: { readonly failure: boolean };
}

interface Dead {
  readonly claimUid: string;
  readonly epoch: Epoch;
  readonly failure: boolean;
  /** Nobody has been told yet. */
  readonly late: boolean;
}

interface AgentVolume {
  floor: Epoch;
  readonly held: Map<string, Held>;
  dead: readonly Dead[];
}

export interface ModelNode {
  readonly name: string;
  publish(order: PermitOrder, fate: PublishFate): PublishAnswer;
  release(order: ReleaseOrder, fate: ReleaseFate): ReleaseAnswer;
  /** ReleaseWorkload on the node: nobody asked the controller. The orders whose end it should hear of. */
  releaseLocally(claimUid: string, fate: ReleaseFate): ReleaseOrder | undefined;
  /** Claims whose release began and is not over. */
  leaving(volumeUid: string): readonly string[];
  forget(order: ReleaseOrder): void;
  reboot(): void;
  loseJournal(): void;
  nodeEpoch(): number;
  bootId(): string;
  journalUid(): string;
  /** The kernel's truth: what is mounted for the volume, and whether it is staged. */
  mounts(volumeUid?: string): readonly Mount[];
  staged(volumeUid: string): boolean;
  /** The journal's truth. */
  held(volumeUid: string): readonly PermitOrder[];
  dead(volumeUid: string): readonly Dead[];
}

const sameEpoch = (a: Epoch, b: Epoch): boolean => compareEpochs(a, b) === 0;
const below = (epoch: Epoch): Epoch => ({ ...epoch, ctr: epoch.ctr - 1 });
const refused = (reason: string): { kind: "refused"; reason: string; message: string } => ({
  kind: "refused",
  reason,
  message: `refused: ${reason}`,
});
const uncertain: PublishAnswer = { kind: "uncertain", reason: "UNAVAILABLE", message: "no answer of the plugin" };
const notMounted: PublishAnswer = { kind: "not-mounted", reason: "PLUGIN_REFUSED", message: "the plugin refused" };
const pending: ReleaseAnswer = { kind: "pending", blocked: false, reason: "UNAVAILABLE", message: "no answer" };
const stuck: ReleaseAnswer = { kind: "pending", blocked: true, reason: "MOUNT_HELD", message: "held by pid 7" };

/**
 * A node: kernel, plugin and agent, as protocol §2.4 in miniature. It keeps epochs, and nothing else: the agent's own look at
 * access modes is left out, so that the controller's rules have to do without a second lock.
 */
export const createModelNode = (name: string, attached: (volumeUid: string) => boolean): ModelNode => {
  let nodeEpoch = 1;
  let boots = 1;
  let journals = 1;
  let mountIds = 0;
  const volumes = new Map<string, AgentVolume>();
  const mounted = new Map<string, Mount>();
  const stagedUids = new Set<string>();

  const volumeOf = (uid: string): AgentVolume => {
    const known = volumes.get(uid) ?? { floor: zeroEpoch, held: new Map<string, Held>(), dead: [] };
    volumes.set(uid, known);
    return known;
  };

  const prune = (volume: AgentVolume): void => {
    volume.dead = volume.dead.filter((it) => it.late || compareEpochs(it.epoch, volume.floor) > 0);
  };

  const end = (volume: AgentVolume, claimUid: string, epoch: Epoch, how: { failure: boolean; late: boolean }): void => {
    volume.held.delete(claimUid);
    const others = volume.dead.filter((it) => it.claimUid !== claimUid || !sameEpoch(it.epoch, epoch));
    volume.dead = [...others, { claimUid, epoch, ...how }];
    prune(volume);
  };

  const unmount = (volumeUid: string, claimUid: string): void => {
    mounted.delete(claimUid);
    if (![...mounted.values()].some((m) => m.volumeUid === volumeUid)) stagedUids.delete(volumeUid);
  };

  const letGo = (order: ReleaseOrder, fate: ReleaseFate, failure: boolean, late: boolean): ReleaseAnswer => {
    const volume = volumeOf(order.volumeUid);
    const held = volume.held.get(order.claimUid);
    if (held !== undefined) volume.held.set(order.claimUid, { ...held, leaving: { failure } });
    if (fate === "fails") return pending;
    if (fate === "blocked") return stuck;
    unmount(order.volumeUid, order.claimUid);
    if (fate === "half") return pending;
    end(volume, order.claimUid, held?.order.epoch ?? order.epoch, { failure, late });
    return { kind: "released" };
  };

  const mount = (order: PermitOrder, fate: PublishFate): PublishAnswer => {
    if (fate === "refused" || fate === "refused-stuck") {
      const gone = letGo(order, fate === "refused" ? "done" : "fails", true, false);
      return gone.kind === "released" ? notMounted : uncertain;
    }
    if (fate === "fails" || !attached(order.volumeUid)) return uncertain;
    mountIds += 1;
    stagedUids.add(order.volumeUid);
    const there = mounted.get(order.claimUid);
    if (there === undefined) mounted.set(order.claimUid, { ...order, mountId: mountIds });
    if (fate === "half") return uncertain;
    return {
      kind: "published",
      publication: { hostPath: `/hf/${order.claimUid}`, mountId: there?.mountId ?? mountIds },
    };
  };

  return {
    name,
    publish(order, fate) {
      if (order.nodeEpoch !== nodeEpoch) return refused("NODE_EPOCH");
      const volume = volumeOf(order.volumeUid);
      const dead = volume.dead.find((it) => sameEpoch(it.epoch, order.epoch));
      if (dead !== undefined) return dead.failure && dead.claimUid === order.claimUid ? notMounted : refused("DEAD");
      const held = volume.held.get(order.claimUid);
      if (held?.leaving?.failure === true) {
        const gone = letGo(order, fate === "done" ? "done" : "fails", true, false);
        return gone.kind === "released" ? notMounted : uncertain;
      }
      if (held?.leaving !== undefined) return refused("DEAD");
      if (compareEpochs(order.epoch, volume.floor) <= 0) return refused("FLOOR");
      if (held === undefined) {
        const floor = below(order.oldestLiveEpoch);
        if (compareEpochs(floor, volume.floor) > 0) volume.floor = floor;
        volume.held.set(order.claimUid, { order });
        prune(volume);
      }
      return mount(order, fate);
    },
    release(order, fate) {
      if (order.nodeEpoch !== nodeEpoch) return refused("NODE_EPOCH");
      const volume = volumeOf(order.volumeUid);
      const held = volume.held.get(order.claimUid);
      if (held !== undefined && compareEpochs(order.epoch, held.order.epoch) < 0) return refused("FLOOR");
      if (held === undefined && volume.dead.some((it) => sameEpoch(it.epoch, order.epoch))) return { kind: "released" };
      return letGo(order, fate, held?.leaving?.failure ?? false, false);
    },
    releaseLocally(claimUid, fate) {
      const held = [...volumes.values()].map((v) => v.held.get(claimUid)).find((h) => h !== undefined);
      if (held === undefined) return undefined;
      return letGo(held.order, fate, false, true).kind === "released" ? held.order : undefined;
    },
    leaving: (volumeUid) =>
      [...(volumes.get(volumeUid)?.held ?? [])].flatMap(([uid, { leaving }]) =>
        leaving === undefined || leaving.failure ? [] : [uid],
      ),
    forget(order) {
      const volume = volumeOf(order.volumeUid);
      volume.dead = volume.dead.map((it) => (it.claimUid === order.claimUid ? { ...it, late: false } : it));
      prune(volume);
    },
    reboot() {
      boots += 1;
      mounted.clear();
      stagedUids.clear();
    },
    loseJournal() {
      journals += 1;
      nodeEpoch += 1;
      volumes.clear();
    },
    nodeEpoch: () => nodeEpoch,
    bootId: () => `${name}-boot-${boots}`,
    journalUid: () => `${name}-journal-${journals}`,
    mounts: (volumeUid) => [...mounted.values()].filter((m) => volumeUid === undefined || m.volumeUid === volumeUid),
    staged: (volumeUid) => stagedUids.has(volumeUid),
    held: (volumeUid) => [...(volumes.get(volumeUid)?.held.values() ?? [])].map((h) => h.order),
    dead: (volumeUid) => volumes.get(volumeUid)?.dead ?? [],
  };
};
