/**
 * Whether anything may be granted or offered from the store as it is now. A store that was restarted, restored or replaced may have
 * forgotten grants that agents hold; from such a memory a second writer could be granted.
 *
 * I8 an unvetted store grants nothing: the gate is shut until the process behind the store is the one that was vetted.
 * G1 Vetting asks every READY node, and a fenced one that is heard, or was since: a store that lost writes may show a fence that is long
 * over. A node that does not answer keeps the gate shut and is named. G2 A suspicion during a vetting, or the word of a person, makes it
 * begin anew. G3 What was vetted is recorded in the store, which compares it at every grant by itself.
 * G4 A vetting begins a generation of its own, and each node promises it before it is asked what it holds: an order that was decided
 * before comes too late from then on, however long it was held on its way. G5 A generation that is promised to a vetting which this
 * controller knows is passed by a higher one: the store has lost it. One of a vetting that is not known may stand in another
 * history, and keeps the gate shut until a person decides. G6 A call that the store does not know, and that may be open at a plugin, keeps
 * the gate shut: nobody waits for its end, and what it does would come after the next grant. G7 A process that was vetted under a lower
 * generation than this controller has seen is a master that was replaced, and serves another history.
 */

import type { Clock } from "@holdfast/shared/async/clock";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AgentGateway, OpenCall } from "../agent-ports.ts";
import { mayHold } from "../domain/node/fence.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import type { ExpectedRecord, StoreIdentity } from "../domain/store-types.ts";
import type { Nodes, NodeView, Store, StoreGate } from "../ports.ts";
import { type GateWord, gatesRef } from "../records/controller-gates.ts";
import { isSilent } from "../records/grant-facts.ts";
import { createAskNodes, type Vetted } from "./ask-nodes.ts";
import type { KnownVolumes } from "./compare-inventory.ts";
import {
  doubtsOf,
  heldBackBy,
  nothingLost,
  type OtherControllers,
  unheardFindings,
  unheardOf,
} from "./controller-words.ts";
import { type Finding, finding } from "./finding.ts";
import { createGateStanding } from "./gate-standing.ts";
import { createGoneLives } from "./gone-lives.ts";
import type { LeftCalls } from "./left-calls.ts";
import { type Lineage, otherHistory } from "./lineage.ts";
import { createNodeRoster } from "./node-roster.ts";
import { createOwnWord } from "./own-word.ts";

export interface StoreGateOptions {
  readonly store: Pick<Store, "identity" | "beginVetting" | "markVetted" | "onSuspect">;
  readonly nodes: Pick<Nodes, "list" | "onChange">;
  readonly agents: Pick<AgentGateway, "inventory" | "promise">;
  readonly volumes: KnownVolumes;
  /** Names of the calls that records have: those that are under way, and those that are barred. */
  readonly knownCalls: () => Promise<ReadonlySet<string>>;
  /** Calls of this controller that may be open at plugins beside it. */
  readonly openCalls: () => readonly OpenCall[];
  /** Those that lives before this one left there. */
  readonly left: LeftCalls;
  /** undefined: no other controller can use the store. */
  readonly controllers: OtherControllers | undefined;
  readonly lineage: Lineage;
  readonly uuid: () => string;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface VettedStoreGate extends StoreGate {
  /** One look, and a vetting if it is needed. */
  check(signal: AbortSignal): Promise<void>;
  /** Looks, and again whenever something changed, until the signal; rejects then. */
  run(signal: AbortSignal): Promise<never>;
  /** Resolves when `run` has looked once, or after `mostMs`: a node that is out of reach must not hold up a start. */
  firstLook(mostMs: number, signal: AbortSignal): Promise<void>;
  /** Something changed of which it hears in no other way. */
  look(): void;
  /** The same; resolves when it has looked, or after a while. */
  lookAgain(signal: AbortSignal): Promise<void>;
  /** This life ends, and makes no call any more: nobody waits for its word. */
  signOff(): Promise<void>;
  /** CW5 */
  judgedBy(): readonly ExpectedRecord[];
  /** What keeps it shut, for all plugins or for some. */
  findings(): readonly Finding[];
  /** Opens it in spite of the findings, on somebody's word. */
  accept(who: string, reason: string): Promise<void>;
}

const noWitness = finding("NO_WITNESS", "no node is READY to say what it holds");
const recordsOf = (views: readonly NodeView[]): readonly NodeRecord[] => views.map(({ record }) => record);

const retryMs = 2_000;
/** So often a gate that is open looks whether its word still stands: others take out that of a life which is silent for long. */
const lookMs = 5_000;
/** So often a vetting goes on above a generation that a node had promised already. */
const mostBegun = 8;

export const createStoreGate = (options: StoreGateOptions): VettedStoreGate => {
  const { store, nodes, volumes, openCalls, left, controllers, lineage, uuid, clock, log } = options;
  const roster = createNodeRoster(options);
  const word = createOwnWord({ ...options, roster });
  const goneLives = createGoneLives((issuer) => controllers?.isAway(issuer) === true, clock);
  const { ask, lostCalls } = createAskNodes({ ...options, knows: lineage.knows });
  const wake = createNotifier();
  const looks = createNotifier();
  const standing = createGateStanding(log);
  const { become, shut } = standing;
  /** Counts what overtakes a look that is under way: a suspicion, or somebody's word. */
  let overtaken = 0;
  /** The highest generation that stood in the way of a vetting: what a person accepts is above it. */
  let refused = 0;
  /** Uid of the newest vetting under which this gate was open. */
  let opened = "";
  let unheard: readonly GateWord[] = [];
  let judgedBy: readonly ExpectedRecord[] = [];

  store.onSuspect((reason) => {
    overtaken += 1; // G2
    shut([finding("STORE", `the store may be another one than before: ${reason}`)]);
    wake.notify();
  });
  nodes.onChange((name) => {
    roster.changed(name, standing.now().open);
    if (!standing.now().open) wake.notify();
  });

  /** G4: of the process that is behind the store now. */
  const begin = async ({ runId, vetting, begun }: StoreIdentity, above: number): Promise<boolean> => {
    if (begun && vetting.gen > above) return false;
    await store.beginVetting(runId, { gen: Math.max(vetting.gen, above) + 1, uid: uuid() });
    return true;
  };

  /** G6: calls beside this controller. */
  const ownLostCalls = (): Promise<readonly Finding[]> => lostCalls("", openCalls());

  const vet = async (identity: StoreIdentity, signal: AbortSignal): Promise<Vetted> => {
    const { vetting } = identity;
    const lost = await ownLostCalls();
    await word.tell(identity, opened, lost.length === 0);
    const [silent, speaking] = [nodes.list().filter(isSilent), nodes.list().filter((view) => !isSilent(view))];
    const told = await ask(recordsOf(speaking), vetting, signal);
    const findings = [...lost, ...told.findings];
    // While the nodes spoke, the other controllers did.
    const words = (await controllers?.read())?.words ?? [];
    if (controllers !== undefined && nothingLost(words, vetting)) return { ...told, findings }; // CW2
    const doubtful = silent.filter(({ record }) => mayHold(record));
    const missed = await ask(recordsOf(doubtful), vetting, signal);
    const fresh = nodes.list().length === 0 && (await volumes.none());
    const nobody = fresh || doubtful.length + speaking.length > 0 ? [] : [noWitness];
    const others = doubtsOf(words, vetting, controllers, roster.missing());
    return {
      above: Math.max(told.above, missed.above),
      findings: [...findings, ...nobody, ...others, ...missed.findings],
    };
  };

  const open = async (identity: StoreIdentity, vetted: boolean): Promise<void> => {
    const { clusterUid, runId, vetting } = identity;
    if (!vetted) await store.markVetted(runId, vetting); // G3
    roster.settle();
    const promises = word.hasPromised(vetting) || (await ownLostCalls()).length === 0;
    const told = await word.tell(identity, opened, promises);
    const isOver = goneLives(told.words, vetting);
    const { words, rev } = (told.words.some(isOver) ? await controllers?.remove(isOver) : undefined) ?? told; // CW4
    lineage.remember(clusterUid);
    opened = vetting.uid;
    unheard = unheardOf(words, vetting); // CW1
    judgedBy = controllers === undefined ? [] : [{ ref: gatesRef, expectedRev: rev }]; // CW5
    become({ open: true, vetting, reason: "" }, [...unheardFindings(unheard, vetting), ...left.findings()]);
  };

  const check = async (signal: AbortSignal): Promise<void> => {
    let above = Math.max(0, lineage.generation() - 1);
    for (let begun = 0; begun <= mostBegun; ) {
      const before = overtaken;
      try {
        const identity = await store.identity();
        const vetted = identity.runId !== "" && identity.runId === identity.vettedRunId;
        const other = otherHistory(identity, vetted, lineage);
        if (other !== undefined) {
          refused = Math.max(refused, lineage.generation());
          return shut([other]);
        }
        lineage.saw(identity.vetting);
        if (!vetted && (await begin(identity, above))) {
          begun += 1;
          continue;
        }
        // From here on no call that was decided before leaves: what is told to the others is true.
        become({ ...standing.now(), vetting: identity.vetting }, standing.findings());
        const told = vetted ? { findings: [], above: 0 } : await vet(identity, signal);
        if (overtaken !== before) continue; // G2
        above = Math.max(above, told.above);
        refused = above;
        if (told.findings.length > 0) return shut(told.findings);
        if (told.above > 0) continue; // G5
        await open(identity, vetted);
        if (overtaken === before) return;
        // The suspicion came while the answer was on its way; the store compares by itself, and it is looked at again.
        become({ open: false, vetting: identity.vetting, reason: "the store changed while it was vetted" });
      } catch (error) {
        signal.throwIfAborted();
        if (overtaken !== before) continue; // G2
        const why = error instanceof Error ? error.message : String(error);
        return shut([finding("STORE", `the store cannot be used: ${why}`)]);
      }
    }
    shut([finding("STORE", "other controllers vet the store at the same time; it is looked at again")]);
  };

  const pause = async (version: number, signal: AbortSignal): Promise<void> => {
    const until = linkSignals(signal);
    const cancel =
      standing.now().open && unheard.length === 0 && controllers === undefined && !left.some()
        ? undefined
        : clock.timer(standing.now().open && unheard.length === 0 ? lookMs : retryMs, () =>
            until.abort(new DOMException("", "TimeoutError")),
          );
    try {
      await wake.wait(version, until.signal);
    } catch {
      signal.throwIfAborted();
    } finally {
      cancel?.();
      until.dispose();
    }
  };

  const lookAfter = async (before: number, mostMs: number, signal: AbortSignal): Promise<void> => {
    const until = linkSignals(signal);
    const cancel = clock.timer(mostMs, () => until.abort(new DOMException("", "TimeoutError")));
    try {
      await looks.wait(before, until.signal);
    } catch {
      signal.throwIfAborted();
    } finally {
      cancel();
      until.dispose();
    }
  };

  const state: StoreGate["state"] = (plugin) => {
    const { open, vetting } = standing.now();
    if (!open || plugin === undefined) return standing.now();
    const reason = word.names(plugin)
      ? heldBackBy(unheard, plugin, vetting)
      : `the other controllers are not told yet that ${plugin} is called here`;
    return reason === undefined ? standing.now() : { open: false, vetting, reason };
  };

  return {
    state,
    onChange: standing.onChange,
    look: wake.notify,
    check,
    async run(signal) {
      for (;;) {
        signal.throwIfAborted();
        const version = wake.version();
        await check(signal);
        looks.notify();
        await pause(version, signal);
      }
    },
    firstLook: (mostMs, signal) => lookAfter(0, mostMs, signal),
    lookAgain(signal) {
      const before = looks.version();
      wake.notify();
      return lookAfter(before, retryMs, signal);
    },
    async signOff() {
      roster.flush();
      const { open, vetting } = standing.now();
      await word.signOff(open ? vetting : undefined, openCalls().length > 0);
    },
    judgedBy: () => judgedBy,
    findings: standing.findings,
    async accept(who, reason) {
      const before = await store.identity();
      const identity = (await begin(before, refused)) ? await store.identity() : before;
      log.warn("audit: the store was accepted without proof", {
        who,
        why: reason,
        cluster: identity.clusterUid,
        findings: standing.findings().map(({ message }) => message),
      });
      await store.markVetted(identity.runId, identity.vetting);
      left.giveUp(); // LC3
      await controllers?.remove(({ promised }) => promised !== before.vetting.uid); // CW1
      await open(identity, true);
      overtaken += 1; // G2
    },
  };
};
