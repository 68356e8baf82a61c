import { compareEpochs } from "@holdfast/model/epoch";
import { noChange } from "../change.ts";
import type { Claim } from "../claim/claim.ts";
import { type GrantFacts, obstacleTo } from "../claim/grant.ts";
import type { Step } from "../steps.ts";
import type { VolumeCapability, VolumeRecord } from "../volume/volume.ts";
import { createClaimBirth } from "./claim-birth.ts";
import { type BackendCall, createModelBackend } from "./model-backend.ts";
import { createModelNode, type ReleaseFate, type ReleaseOrder } from "./model-node.ts";
import { createAnswers } from "./world-answers.ts";
import { checkWorld, violated } from "./world-checks.ts";
import type { Luck, Message } from "./world-permits.ts";
import { createWorldRecord } from "./world-record.ts";
import type { Rules } from "./world-rules.ts";
import { createWorldSteps, goodLuck, type InFlight } from "./world-steps.ts";

export interface VolumeWorldOptions {
  readonly rules: Rules;
  readonly nodes: readonly string[];
  readonly capabilities: readonly VolumeCapability[];
  /** Does the plugin need ControllerPublish? */
  readonly attaches: boolean;
  /** Does the backend take one node at a time, whatever the mode? */
  readonly oneNode?: boolean;
  readonly reclaim: "retain" | "delete";
}

const shortest = 10 * 60_000;
const pick = <T>(list: readonly T[], at: number): T | undefined => list[at % Math.max(1, list.length)];

/**
 * One volume among three nodes: a record that only the domain's decisions change, and around it a backend, agents and messages that
 * fail as they like. Every command ends with a look at the whole (`checkWorld`); `recover` lets everything be well and shows that
 * nothing is stuck or left behind.
 */
export const createVolumeWorld = (options: VolumeWorldOptions) => {
  const { rules, nodes: names, capabilities, attaches, oneNode = false, reclaim } = options;
  const record = createWorldRecord({ rules, capabilities, reclaim });
  const isAttached = (volumeUid: string, node: string): boolean => {
    const volume = record.current();
    return !attaches || (volume?.uid === volumeUid && backend.attachedTo(volume.externalId).includes(node));
  };
  const nodes = names.map((name) => createModelNode(name, (volumeUid) => isAttached(volumeUid, name)));
  const nodeOf = (name: string) => {
    const found = nodes.find((n) => n.name === name);
    if (found === undefined) throw new Error(`no node ${name}`);
    return found;
  };
  const watch = (call: BackendCall): void => {
    const volume = record.current();
    if (call.op === "detach" && volume?.externalId === call.externalId) {
      const host = nodeOf(call.node);
      if (host.mounts(volume.uid).length > 0 || host.staged(volume.uid))
        throw violated("I2", `detached from ${call.node} while mounted there`);
    }
    if (call.op === "delete" && backend.attachedTo(call.externalId).length > 0)
      throw violated("I5", "deleted while attached");
  };
  const backend = createModelBackend(watch, oneNode);
  const ready = new Map<string, boolean>();
  let gateOpen = true;
  const underway: Message[] = [];
  const acks: { readonly node: string; readonly nodeEpoch: number; readonly order: ReleaseOrder }[] = [];
  const flights: InFlight[] = [];

  const factsOf = (_plugin: string, node: string): GrantFacts => ({
    nodeReady: ready.get(node) !== false,
    nodeEpoch: nodeOf(node).nodeEpoch(),
    nodeId: `id-${node}`,
    topology: {},
    pluginVersion: "1",
    attaches: attaches ? "yes" : "no",
    publishesReadOnly: "yes",
    ...(gateOpen ? {} : { unvetted: "it changed" }),
    storeGen: 1,
  });
  const steps = createWorldSteps({
    record,
    rules,
    answers: createAnswers(rules),
    backend,
    nodeOf,
    nodeReady: (name) => ready.get(name) !== false,
    gateOpen: () => gateOpen,
    factsOf,
    underway,
  });

  const check = (): void => checkWorld({ volume: record.current(), backend, nodes, retained: record.retained() });

  const readySteps = () => {
    const volume = record.current();
    if (volume === undefined) return [];
    const busy = new Set(flights.map((f) => f.step.lane));
    return rules.planSteps(volume, record.now()).ready.filter((s) => !busy.has(s.lane));
  };

  const finish = (flight: InFlight): boolean => {
    flights.splice(flights.indexOf(flight), 1);
    return flight.finish();
  };

  const claim = createClaimBirth({ record, rules, factsOf });

  const releaseWanted = (uid: string | undefined): void => {
    if (uid !== undefined && record.current()?.claims[uid]?.goal === "active")
      record.change("release_wanted", [uid], (v, at) => rules.releaseWanted(v, uid, undefined, at));
  };

  /** The controller compares what it believes of a node with what its agent tells: lives, journal, holdings. */
  const inspect = (name: string): boolean => {
    const host = nodeOf(name);
    let changed = false;
    for (const { uid, state, node, publication } of Object.values(record.current()?.claims ?? {})) {
      if (node !== name || (state !== "ACTIVE" && state !== "OFFERED")) continue;
      const otherLife =
        publication !== undefined &&
        (publication.bootId !== host.bootId() || publication.journalUid !== host.journalUid());
      const held = host.held(record.current()?.uid ?? "").some((h) => h.claimUid === uid);
      if (state === "ACTIVE" && (otherLife || !held) && record.current()?.claims[uid]?.degradedSince === undefined)
        changed = record.change("publication_lost", [uid], (v, at) => rules.publicationLost(v, uid, at)) || changed;
      if (state === "OFFERED" && !held)
        changed = record.change("offer_again", [uid], (v, at) => rules.offerAgain(v, uid, at)) || changed;
    }
    return changed;
  };

  const releaseLocally = (node: string, uid: string, fate: ReleaseFate): void => {
    const order = nodeOf(node).releaseLocally(uid, fate);
    if (order !== undefined) acks.push({ node, nodeEpoch: nodeOf(node).nodeEpoch(), order });
  };

  const acknowledge = ({ node, nodeEpoch, order }: (typeof acks)[number]): void => {
    // What a lost journal proved is worth nothing: the permit may have been honoured anew since.
    if (nodeEpoch !== nodeOf(node).nodeEpoch()) return;
    record.change("released", [order.claimUid], (v, at) => {
      const known = v.uid === order.volumeUid ? v.claims[order.claimUid] : undefined;
      if (known?.epoch === undefined || compareEpochs(known.epoch, order.epoch) !== 0) return noChange(v);
      return rules.released(v, order.claimUid, at);
    });
    nodeOf(node).forget(order);
  };

  /** The backend has it at another node, for a claim that is to stay there: there is nothing to do but to wait. */
  const isKeptOut = (volume: VolumeRecord, { uid, state, node }: Claim): boolean =>
    oneNode &&
    state === "ATTACHING" &&
    volume.intent === undefined &&
    Object.values(volume.claims).some(
      (c) =>
        c.uid !== uid &&
        c.node !== node &&
        c.state === "ACTIVE" &&
        c.goal === "active" &&
        backend.attachedTo(volume.externalId).includes(c.node),
    );

  const inVain = (step: Step): boolean => {
    const volume = record.current();
    const known = step.do === "attach" ? volume?.claims[step.uid] : undefined;
    return volume !== undefined && known !== undefined && isKeptOut(volume, known);
  };

  /** Runs what is owed, with nothing going wrong any more, until nothing moves. */
  const calm = (): void => {
    for (let round = 0; round < 400; round += 1) {
      let moved = false;
      for (const step of readySteps()) {
        if (!readySteps().some((s) => JSON.stringify(s) === JSON.stringify(step)) || inVain(step)) continue;
        const started = steps.start(step, goodLuck);
        moved = (typeof started === "boolean" ? started : started.finish()) || moved;
        check();
      }
      for (const name of names) moved = inspect(name) || moved;
      if (moved) continue;
      const volume = record.current();
      const next = volume === undefined ? undefined : rules.planSteps(volume, record.now()).next;
      if (next === undefined || next - record.now() > shortest) return;
      record.pass(next - record.now());
    }
    throw violated("I6", "it goes on and on");
  };

  return {
    create: () => {
      if (record.current() === undefined) record.begin();
    },
    remove: () => void record.change("delete_wanted", [], (v, at) => rules.deleteWanted(v, undefined, at)),
    claim,
    release: (at: number) => releaseWanted(pick(Object.keys(record.current()?.claims ?? {}), at)),
    step(at: number, luck: Luck, held: boolean) {
      const step = pick(readySteps(), at);
      const started = step === undefined ? false : steps.start(step, luck);
      if (typeof started === "boolean") return;
      flights.push(started);
      if (!held) finish(started);
    },
    answer(at: number) {
      const flight = pick(flights, at);
      if (flight !== undefined) finish(flight);
    },
    crash() {
      for (const flight of flights.splice(0)) flight.abandon();
      record.nextLife();
    },
    deliver(at: number, luck: Luck, how: { readonly again: boolean; readonly answered: boolean }) {
      const message = pick(underway, at);
      if (message === undefined) return;
      if (!how.again) underway.splice(underway.indexOf(message), 1);
      steps.deliver(message, luck, how.answered);
    },
    drop: (at: number) => void underway.splice(at % Math.max(1, underway.length), 1),
    releaseLocally(name: string, at: number, fate: ReleaseFate) {
      const held = pick(nodeOf(name).held(record.current()?.uid ?? ""), at);
      if (held !== undefined) releaseLocally(name, held.claimUid, fate);
    },
    acknowledge(at: number, again: boolean) {
      const ack = pick(acks, at);
      if (ack === undefined) return;
      if (!again) acks.splice(acks.indexOf(ack), 1);
      acknowledge(ack);
    },
    settleBackend: () => backend.settle(),
    pass: (ms: number) => record.pass(ms),
    reboot: (name: string) => nodeOf(name).reboot(),
    loseJournal: (name: string) => nodeOf(name).loseJournal(),
    inspect: (name: string) => void inspect(name),
    setReady: (name: string, is: boolean) => void ready.set(name, is),
    setGate(open: boolean) {
      gateOpen = open;
    },
    check,
    seen: () => record.seen(),
    volume: () => record.current(),

    /** [I6] Everything is well from here on. */
    recover() {
      gateOpen = true;
      ready.clear();
      for (const flight of [...flights]) finish(flight);
      check();
      backend.settle();
      for (const message of underway.splice(0)) steps.deliver(message, goodLuck, false);
      check();
      // Whoever asked its node for a release asks again until it is done.
      for (const host of nodes)
        for (const uid of host.leaving(record.current()?.uid ?? "")) releaseLocally(host.name, uid, "done");
      for (const ack of acks.splice(0)) acknowledge(ack);
      calm();
      const volume = record.current();
      for (const c of Object.values(volume?.claims ?? {})) {
        const mounted = nodeOf(c.node)
          .mounts()
          .some((m) => m.claimUid === c.uid);
        const kept = Object.values(volume?.claims ?? {}).filter((k) => volume !== undefined && isKeptOut(volume, k));
        const obstacle = volume === undefined ? undefined : obstacleTo(volume, c, factsOf(volume.plugin, c.node));
        const waits = obstacle?.reason === "CLAIM_CONFLICT" || (kept.length > 0 && obstacle?.reason === "VOLUME_BUSY");
        const is = c.state === "ACTIVE" ? mounted : kept.includes(c);
        const settled = c.goal === "active" && (c.state === "QUEUED" ? waits : is);
        if (!settled || c.degradedSince !== undefined) throw violated("I6", `${c.uid} stays ${c.state} for ${c.goal}`);
      }
    },
    /** [I6] All is given back: nothing of the volume is left anywhere. */
    clear() {
      for (const uid of Object.keys(record.current()?.claims ?? {})) releaseWanted(uid);
      check();
      calm();
      const before = record.current();
      if (before !== undefined && Object.keys(before.claims).length + Object.keys(before.attachments).length > 0)
        throw violated("I6", "claims are left after all were released");
      if (backend.attachments().length > 0) throw violated("I5", "attachments are left");
      for (const host of nodes)
        if (host.mounts().length > 0 || (before !== undefined && host.held(before.uid).length > 0))
          throw violated("I5", `something is left on ${host.name}`);
      this.remove();
      check();
      calm();
      const after = record.current();
      if (after !== undefined && after.blocked?.reason !== "CREATE_UNCERTAIN")
        throw violated("I6", `the volume stays ${after.state} after its deletion`);
    },
  };
};

export type VolumeWorld = ReturnType<typeof createVolumeWorld>;
