import { compareEpochs, zeroEpoch } from "@holdfast/model/epoch";
import type { Change } from "../change.ts";
import type { SetChange } from "../claim/claim-set-change.ts";
import type { Moment } from "../moment.ts";
import { noAttempts } from "../outcome.ts";
import { defaultRetry } from "../retry.ts";
import { type VolumeCapability, type VolumeRecord, volumeKey } from "../volume/volume.ts";
import type { Decision } from "./world-answers.ts";
import { violated } from "./world-checks.ts";
import type { Rules } from "./world-rules.ts";

/** The one record of the world, as a store would keep it, and what must be true from one write to the next. */
export interface WorldRecord {
  current(): VolumeRecord | undefined;
  now(): number;
  pass(ms: number): void;
  moment(): Moment;
  newUid(): string;
  /** The controller that decides is a new one from now on. */
  nextLife(): void;
  /** Names that were kept at the backend on purpose. */
  retained(): ReadonlySet<string>;
  begin(): void;
  /** One commit. `event` and the claims it speaks of are counted, to know what a run has seen. */
  change(event: string, uids: readonly string[], decide: Decision): boolean;
  /** As `change`, and lets the rest of a set go when a member fails by it. */
  changeWithSet(event: string, uids: readonly string[], decide: Decision): boolean;
  changeSet(event: string, decide: (volumes: ReadonlyMap<string, VolumeRecord>, at: Moment) => SetChange): boolean;
  /** `STATE × event` → how often. */
  seen(): ReadonlyMap<string, number>;
}

export interface WorldRecordOptions {
  readonly rules: Rules;
  readonly capabilities: readonly VolumeCapability[];
  readonly reclaim: "retain" | "delete";
}

const ref = { namespace: "ns", id: "data" };

export const createWorldRecord = ({ rules, capabilities, reclaim }: WorldRecordOptions): WorldRecord => {
  let volume: VolumeRecord | undefined;
  let now = 1_000_000;
  let ids = 0;
  let life = 1;
  const seen = new Map<string, number>();
  const ended = new Set<string>();
  const retained = new Set<string>();

  const issuer = (): string => `controller/${life}`;

  const moment = (): Moment => {
    ids += 1;
    return { now, issuer: issuer(), opId: `op-${ids}`, random: 0.5, retry: defaultRetry };
  };

  const note = (event: string, uids: readonly string[]): void => {
    for (const uid of uids) {
      const state = volume?.claims[uid]?.state;
      const cell = `${state ?? "over"} × ${event}`;
      seen.set(cell, (seen.get(cell) ?? 0) + 1);
    }
  };

  const write = (change: Change): boolean => {
    const before = volume;
    if (change.volume === before && change.ended.length === 0) return false;
    const after = change.volume ?? undefined;
    for (const { uid } of change.ended) {
      if (ended.has(uid)) throw violated("I6", `${uid} ends twice`);
      ended.add(uid);
    }
    for (const uid of Object.keys(after?.claims ?? {}))
      if (ended.has(uid)) throw violated("I6", `${uid} lives again after it ended`);
    for (const uid of Object.keys(before?.claims ?? {}))
      if (after?.claims[uid] === undefined && !ended.has(uid))
        throw violated("I6", `${uid} vanished without a tombstone`);
    if (before !== undefined && after !== undefined) {
      if (compareEpochs(after.epoch, before.epoch) < 0) throw violated("I3", "the volume's epoch went back");
      for (const [uid, claim] of Object.entries(after.claims)) {
        const had = before.claims[uid]?.epoch;
        if (had !== undefined && (claim.epoch === undefined || compareEpochs(had, claim.epoch) !== 0))
          throw violated("I3", `the epoch of ${uid} changed`);
        if (had === undefined && claim.epoch !== undefined && compareEpochs(claim.epoch, before.epoch) <= 0)
          throw violated("I3", `${uid} was granted under an epoch that had been given`);
      }
    }
    if (before?.state === "AVAILABLE" && after === undefined && before.policy.reclaim === "retain")
      retained.add(before.name);
    volume = after;
    return true;
  };

  const one = (current: VolumeRecord): ReadonlyMap<string, VolumeRecord> => new Map([[volumeKey(current), current]]);

  return {
    current: () => volume,
    now: () => now,
    pass(ms) {
      now += ms;
    },
    moment,
    nextLife() {
      life += 1;
    },
    newUid() {
      ids += 1;
      return `claim-${ids}`;
    },
    retained: () => retained,
    begin() {
      ids += 1;
      volume = {
        ...ref,
        uid: `volume-${ids}`,
        name: `name-${ids}`,
        externalId: "",
        plugin: "model",
        pluginVersion: "1",
        parameters: {},
        mutableParameters: {},
        capabilities,
        capacity: { required: 1, limit: 0, actual: 0 },
        topology: { required: [], preferred: [], accessible: [] },
        contentSource: { kind: "none" },
        context: {},
        secretRefs: {},
        labels: {},
        policy: { reclaim, nodeLoss: "wait", requiresRepublish: false, identityTokens: [] },
        state: "CREATING",
        goal: "present",
        epoch: zeroEpoch,
        claims: {},
        attachments: {},
        bars: [],
        intent: { op: "create", epoch: zeroEpoch, issuer: issuer(), opId: `op-${ids}` },
        attempts: noAttempts,
        requestId: `request-${ids}`,
        createdAt: now,
        updatedAt: now,
        stateSince: now,
        changedBy: { who: "tester", why: "" },
      };
    },
    change(event, uids, decide) {
      if (volume === undefined) return false;
      note(event, uids);
      return write(decide(volume, moment()));
    },
    changeWithSet(event, uids, decide) {
      if (volume === undefined) return false;
      note(event, uids);
      const at = moment();
      const key = volumeKey(volume);
      const spread = rules.spreadFailure(one(volume), key, decide(volume, at), at).get(key);
      return spread !== undefined && write(spread);
    },
    changeSet(event, decide) {
      if (volume === undefined) return false;
      note(
        event,
        Object.values(volume.claims)
          .filter((c) => c.state === "QUEUED")
          .map((c) => c.uid),
      );
      const change = decide(one(volume), moment()).get(volumeKey(volume));
      return change !== undefined && write(change);
    },
    seen: () => seen,
  };
};
