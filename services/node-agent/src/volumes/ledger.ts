/**
 * The agent's memory: the fold of the journal's records.
 *
 * L1 What `volume` answers follows from records that are as safe as record-survival.ts asks, and from what was seen since; never from a
 *    record that waits.
 * L2 A record that the machine does not allow makes the journal damaged: nothing is guessed.
 */
import { type Vetting, withPromise } from "@holdfast/model/vetting";
import { applyDocker, nothingOfDocker } from "../domain/docker-book.ts";
import type { AgentRecord, VolumeEvent, VolumeRecord } from "../domain/events.ts";
import { applyRegistryChange, emptyRegistry, type RegistryStep } from "../domain/plugin-registry.ts";
import { promisedOf } from "../domain/promise.ts";
import { agentFault, recordFault, volumeFault } from "../domain/record-fault.ts";
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
    // A file that was rewritten by an earlier version names no plugins.
    if ("f" in entry) agent = { ...newAgent, ...entry.f };
    else if ("s" in entry) volumes.set(entry.s.ref.volumeUid, entry.s);
    else if ("a" in entry) {
      if (entry.a.type === "boot" && entry.a.bootId !== agent.bootId) forgetSights(volumes);
      const after = withKnown(agent, entry.a);
      if (typeof after === "string") return `the agent itself: ${after}`;
      agent = after;
    } else {
      const after = applyKnown(volumes.get(entry.v), entry.r);
      if (typeof after === "string") return `volume ${entry.v}: ${after}`;
      volumes.set(entry.v, after);
    }
    return undefined;
  };
  for (const entry of entries) {
    const fault = faultIn(() => unsound(entry as Entry) ?? take(entry as Entry));
    if (fault !== undefined) return { agent, volumes, fault };
  }
  return { agent, volumes, fault: undefined };
}

function unsound(entry: Entry): string | undefined {
  if ("f" in entry) return agentFault({ ...newAgent, ...entry.f });
  if ("s" in entry) return volumeFault(entry.s);
  return recordFault("a" in entry ? entry.a : entry.r);
}

/** L2: what is built otherwise than any version writes it is a fault as well, and no end of the process. */
function faultIn(take: () => string | undefined): string | undefined {
  try {
    return take();
  } catch (error) {
    return `a record that cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
}

/** Mount ids and device numbers of an earlier boot mean other mounts in this one: what they name now is not ours. */
function forgetSights(volumes: Map<string, VolumeState>): void {
  for (const [uid, volume] of volumes) {
    const after = applyEvent(volume, { type: "recovered", stageSeen: false, sameBoot: false });
    if (!isFault(after)) volumes.set(uid, after);
  }
}

function applyKnown(volume: VolumeState | undefined, event: VolumeEvent): VolumeState | string {
  // A journal of the same format may still hold a record type that this version does not know.
  const after = applyEvent(volume, event) as ReturnType<typeof applyEvent> | undefined;
  if (after === undefined) return `a record of unknown type ${JSON.stringify(event.type)}`;
  return isFault(after) ? after.fault : after;
}

/** As for the volumes: what a later version wrote is not left out, which would be to forget it. */
function withKnown(agent: AgentFacts, record: AgentRecord): AgentFacts | string {
  return withRecord(agent, record) ?? `a record of unknown type ${JSON.stringify(record)}`;
}

function withRecord(agent: AgentFacts, record: AgentRecord): AgentFacts | undefined {
  switch (record.type) {
    case "node-epoch":
      return { ...agent, nodeEpoch: record.nodeEpoch, clusterUid: record.clusterUid };
    case "promised-gen":
      return withPromised(agent, { gen: record.gen, uid: record.uid ?? "" });
    case "boot":
      return { ...agent, bootId: record.bootId, workloads: afterBoot(agent.workloads) };
    case "plugin": {
      const step = applyRegistryChange(agent.plugins, record.change) as RegistryStep | undefined;
      return step && { ...agent, plugins: step.registry };
    }
    case "workload":
      return { ...agent, workloads: applyWorkload(agent.workloads, record.record) };
    case "docker": {
      const docker = applyDocker(agent.docker, record.record);
      return docker && { ...agent, docker };
    }
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
        agent = withRecord(agent, record) ?? agent;
      }),
    keep: take,
    onVolume: (listener) => void listeners.push(listener),
    fullBecause: () => damage ?? journal.fullBecause(),
    waitsBecause: () => journal.waitsBecause(),
    syncs: () => journal.syncs(),
  };
}
