/**
 * The agent's memory: the fold of the journal's records.
 *
 * L1 What `volume` answers follows from records that are as safe as record-survival.ts asks, and from what was seen since; never from a
 *    record that waits.
 * L2 A record that no version writes, or that the machine does not allow, makes the journal damaged: nothing is guessed.
 */
import { type Vetting, withPromise } from "@holdfast/model/vetting";
import { applyDocker, nothingOfDocker } from "../domain/docker-book.ts";
import type { AgentRecord, VolumeRecord } from "../domain/events.ts";
import { journalFault } from "../domain/journal-shapes.ts";
import { applyRegistryChange, emptyRegistry } from "../domain/plugin-registry.ts";
import { promisedOf } from "../domain/promise.ts";

import { type Survival, survivalOf } from "../domain/record-survival.ts";
import type { AgentFacts, VolumeState } from "../domain/types.ts";
import { applyEvent, isFault } from "../domain/volume-machine.ts";
import { afterBoot, applyWorkload, noWorkloads } from "../domain/workload-machine.ts";
import type { Ledger } from "../ports.ts";
import type { Journal } from "./journal.ts";

/** How a record stands in a frame: those of a volume with its uid, a rewritten file with whole states. */
type Entry =
  | { readonly v: string; readonly r: VolumeRecord }
  | { readonly s: VolumeState }
  | { readonly a: AgentRecord }
  | { readonly f: AgentFacts };

const newAgent: AgentFacts = {
  nodeEpoch: 0,
  clusterUid: "",
  promisedGen: 0,
  promisedTo: "",
  bootId: "",
  plugins: emptyRegistry,
  workloads: noWorkloads,
  docker: nothingOfDocker,
};

/** Volumes a frame in a rewritten file: small enough to give the event loop its turns. */
const volumesAFrame = 100;

export interface Folded {
  readonly agent: AgentFacts;
  readonly volumes: Map<string, VolumeState>;
  readonly fault: string | undefined;
}

export function foldRecords(entries: readonly unknown[]): Folded {
  let agent = newAgent;
  const volumes = new Map<string, VolumeState>();
  const take = (entry: Entry): string | undefined => {
    if ("f" in entry) agent = entry.f;
    else if ("s" in entry) volumes.set(entry.s.ref.volumeUid, entry.s);
    else if ("a" in entry) {
      if (entry.a.type === "boot" && entry.a.bootId !== agent.bootId) forgetSights(volumes);
      agent = withRecord(agent, entry.a);
    } else {
      const after = applyEvent(volumes.get(entry.v), entry.r);
      if (isFault(after)) return after.fault;
      volumes.set(entry.v, after);
    }
    return undefined;
  };
  for (const written of entries) {
    const entry = completed(written);
    const fault = journalFault(entry) ?? faultIn(() => take(entry as Entry));
    if (fault !== undefined) return { agent, volumes, fault: `${subjectOf(entry)}: ${fault}` };
  }
  return { agent, volumes, fault: undefined };
}

/** Texts may be any: a claim's uid that every object has for a field is none of ours either. */
function faultIn(take: () => string | undefined): string | undefined {
  try {
    return take();
  } catch (error) {
    return `a record that cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
}

/** A file that was rewritten by an earlier version names no plugins. */
const completed = (entry: unknown): unknown =>
  typeof entry === "object" && entry !== null && "f" in entry && typeof entry.f === "object"
    ? { f: { ...newAgent, ...entry.f } }
    : entry;

function subjectOf(entry: unknown): string {
  const { v, s } = Object(entry) as { readonly v?: unknown; readonly s?: unknown };
  if (v === undefined && s === undefined) return "the agent itself";
  const uid = v ?? (Object(Object(s).ref) as { readonly volumeUid?: unknown }).volumeUid;
  return typeof uid === "string" ? `volume ${uid}` : "a volume";
}

/** Mount ids and device numbers of an earlier boot mean other mounts in this one: what they name now is not ours. */
function forgetSights(volumes: Map<string, VolumeState>): void {
  for (const [uid, volume] of volumes) {
    const after = applyEvent(volume, { type: "recovered", stageSeen: false, sameBoot: false });
    if (!isFault(after)) volumes.set(uid, after);
  }
}

function withRecord(agent: AgentFacts, record: AgentRecord): AgentFacts {
  switch (record.type) {
    case "node-epoch":
      return { ...agent, nodeEpoch: record.nodeEpoch, clusterUid: record.clusterUid };
    case "promised-gen":
      return withPromised(agent, { gen: record.gen, uid: record.uid ?? "" });
    case "boot":
      return { ...agent, bootId: record.bootId, workloads: afterBoot(agent.workloads) };
    case "plugin":
      return { ...agent, plugins: applyRegistryChange(agent.plugins, record.change).registry };
    case "workload":
      return { ...agent, workloads: applyWorkload(agent.workloads, record.record) };
    case "docker":
      return { ...agent, docker: applyDocker(agent.docker, record.record) };
  }
}

function withPromised(agent: AgentFacts, next: Vetting): AgentFacts {
  const { gen, uid } = withPromise(promisedOf(agent), next);
  return { ...agent, promisedGen: gen, promisedTo: uid };
}

export function createLedger(journal: Journal): Ledger {
  const folded = foldRecords(journal.records);
  const { volumes } = folded;
  let { agent } = folded;
  // L2
  const damage =
    journal.damage ?? (folded.fault === undefined ? undefined : `the journal is not consistent: ${folded.fault}`);

  const entriesOf = (states: readonly VolumeState[]): readonly Entry[] => states.map((s) => ({ s }));
  if (damage === undefined) {
    journal.rewriteFrom(function* () {
      yield [{ f: agent } satisfies Entry];
      const states = [...volumes.values()];
      for (let at = 0; at < states.length; at += volumesAFrame) yield entriesOf(states.slice(at, at + volumesAFrame));
    });
  }

  const listeners: ((after: VolumeState) => void)[] = [];
  const take = (after: VolumeState): void => {
    volumes.set(after.ref.volumeUid, after);
    for (const listener of listeners) listener(after);
  };

  const append = (entries: readonly Entry[], survival: Survival, safe: () => void): Promise<void> =>
    damage === undefined ? journal.append(entries, survival, safe) : Promise.reject(new Error(damage));

  return {
    uid: journal.uid,
    damage,
    agent: () => agent,
    volume: (uid) => volumes.get(uid),
    volumes: () => volumes.values(),
    commit: (records, after) =>
      append(
        records.map((r) => ({ v: after.ref.volumeUid, r })),
        survivalOf(records, after),
        () => take(after), // L1
      ),
    commitAgent: (record) =>
      append([{ a: record }], "host", () => {
        agent = withRecord(agent, record);
      }),
    keep: take,
    onVolume: (listener) => void listeners.push(listener),
    fullBecause: () => damage ?? journal.fullBecause(),
    waitsBecause: () => journal.waitsBecause(),
    syncs: () => journal.syncs(),
  };
}
