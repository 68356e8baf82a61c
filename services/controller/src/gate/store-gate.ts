/**
 * Whether anything may be granted or offered from the store as it is now. A store that was restarted, restored or replaced may have
 * forgotten grants that agents hold; from such a memory a second writer could be granted.
 *
 * I8 an unvetted store grants nothing: the gate is shut until the process behind the store is the one that was vetted.
 * G1 Vetting asks every READY node, and a fenced one that is heard: a store that lost writes may show a fence that is long over. A node
 * that does not answer keeps the gate shut and is named. G2 A suspicion during a vetting, or the word of a person, makes it
 * begin anew. G3 What was vetted is recorded in the store, which compares it at every grant by itself.
 * G4 A vetting begins a generation of its own, and each node promises it before it is asked what it holds: an order that was decided
 * before comes too late from then on, however long it was held on its way. G5 A generation that is promised to a vetting which this
 * controller knows is passed by a higher one: the store has lost it. One of a vetting that is not known may stand in another
 * history, and keeps the gate shut until a person decides. G6 A call that the store does not know, and that may be open at a plugin, keeps
 * the gate shut: nobody waits for its end, and what it does would come after the next grant.
 */

import { judgeVetting, maxGenerationStep, noVetting, showVetting, type Vetting } from "@holdfast/model/vetting";
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { inTurns } from "@holdfast/shared/async/in-turns";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AgentGateway, OpenCall } from "../agent-ports.ts";
import { isFenced } from "../domain/node/fence.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import type { StoreIdentity } from "../domain/store-types.ts";
import type { Nodes, Store, StoreGate } from "../ports.ts";
import { isSilent } from "../records/grant-facts.ts";
import { compareInventory, type KnownVolumes } from "./compare-inventory.ts";
import { type Finding, type FindingKind, finding } from "./finding.ts";

export interface StoreGateOptions {
  readonly store: Pick<Store, "identity" | "beginVetting" | "markVetted" | "onSuspect">;
  readonly nodes: Pick<Nodes, "list" | "onChange">;
  readonly agents: Pick<AgentGateway, "inventory" | "promise">;
  readonly volumes: KnownVolumes;
  /** Names of the calls that records have: those that are under way, and those that are barred. */
  readonly knownCalls: () => Promise<ReadonlySet<string>>;
  /** Calls of this controller that may be open at plugins beside it. */
  readonly openCalls: () => readonly OpenCall[];
  readonly lineage: Lineage;
  readonly uuid: () => string;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What this controller keeps beside the store. */
export interface Lineage {
  /** The installation that it belonged to before; it is remembered once one was seen. */
  read(): string | undefined;
  remember(clusterUid: string): void;
  /** Whether it saw that vetting in its store. */
  knows(vettingUid: string): boolean;
  saw(vettingUid: string): void;
}

export interface VettedStoreGate extends StoreGate {
  /** One look, and a vetting if it is needed. */
  check(signal: AbortSignal): Promise<void>;
  /** Looks, and again whenever something changed, until the signal; rejects then. */
  run(signal: AbortSignal): Promise<never>;
  /** Resolves when `run` has looked once, or after `mostMs`: a node that is out of reach must not hold up a start. */
  firstLook(mostMs: number, signal: AbortSignal): Promise<void>;
  /** What keeps it shut. */
  findings(): readonly Finding[];
  /** Opens it in spite of the findings, on somebody's word. */
  accept(who: string, reason: string): Promise<void>;
}

/** What one node said, or all of them. */
interface Vetted {
  readonly findings: readonly Finding[];
  /** A generation that is promised already, to a vetting that is over; 0 = none is in the way. */
  readonly above: number;
}

const retryMs = 2_000;
/** So often a vetting goes on above a generation that a node had promised already. */
const mostBegun = 8;
/** Agents asked at the same time. */
const abreast = 16;

export const createStoreGate = (options: StoreGateOptions): VettedStoreGate => {
  const { store, nodes, agents, volumes, knownCalls, openCalls, lineage, uuid, clock, log } = options;
  const wake = createNotifier();
  const looks = createNotifier();
  const listeners = createEmitter();
  let standing: ReturnType<StoreGate["state"]> = {
    open: false,
    vetting: noVetting,
    reason: "the store was not looked at yet",
  };
  let found: readonly Finding[] = [];
  /** Counts what overtakes a look that is under way: a suspicion, or somebody's word. */
  let overtaken = 0;
  /** The highest generation that stood in the way of a vetting: what a person accepts is above it. */
  let refused = 0;

  const become = (next: typeof standing, findings: readonly Finding[] = []): void => {
    const { open, reason, vetting } = standing;
    const same = next.vetting.gen === vetting.gen && next.vetting.uid === vetting.uid;
    const changed = next.open !== open || next.reason !== reason || !same;
    standing = same ? { ...next, vetting } : next;
    found = findings;
    if (!changed) return;
    if (next.open) log.info("the store may grant", { gen: next.vetting.gen, vetting: next.vetting.uid });
    else log.warn("the store grants nothing", { reason: next.reason });
    listeners.tell();
  };

  const shut = (findings: readonly Finding[]): void => {
    const [first] = findings;
    const more = findings.length > 1 ? ` (and ${findings.length - 1} more)` : "";
    const reason = `${first?.message ?? "unknown"}${more}`;
    become({ open: false, vetting: standing.vetting, reason }, findings);
  };

  store.onSuspect((reason) => {
    overtaken += 1; // G2
    shut([finding("STORE", `the store may be another one than before: ${reason}`)]);
    wake.notify();
  });
  nodes.onChange(() => {
    if (!standing.open) wake.notify();
  });

  const foreign = ({ clusterUid }: StoreIdentity): Finding | undefined => {
    const before = lineage.read();
    return before === undefined || before === clusterUid
      ? undefined
      : finding(
          "OTHER_HISTORY",
          `the store belongs to installation ${clusterUid}, and this controller to ${before}: point it at its own store, or give it an empty state directory`,
        );
  };

  /** G4: of the process that is behind the store now. */
  const begin = async ({ runId, vetting, begun }: StoreIdentity, above: number): Promise<boolean> => {
    if (begun && vetting.gen > above) return false;
    await store.beginVetting(runId, { gen: Math.max(vetting.gen, above) + 1, uid: uuid() });
    return true;
  };

  const vet = async (vetting: Vetting, signal: AbortSignal): Promise<Vetted> => {
    const asked = nodes.list().filter((view) => !isFenced(view.record) || !isSilent(view));
    if (asked.length === 0) {
      const fresh = nodes.list().length === 0 && (await volumes.none());
      return { findings: fresh ? [] : [finding("NO_WITNESS", "no node is READY to say what it holds")], above: 0 };
    }
    const findings = [...(await lostCalls("", openCalls()))];
    let above = 0;
    await inTurns(asked, abreast, async ({ record }) => {
      const told = await hear(record, vetting, signal);
      findings.push(...told.findings);
      above = Math.max(above, told.above);
    });
    signal.throwIfAborted();
    return { findings: findings.sort((a, b) => (a.node < b.node ? -1 : 1)), above };
  };

  /** G6 */
  const lostCalls = async (node: string, calls: readonly OpenCall[]): Promise<readonly Finding[]> => {
    if (calls.length === 0) return [];
    const where = node === "" ? "beside this controller" : `on node ${node}`;
    const known = await knownCalls();
    return calls
      .filter(({ opId }) => !known.has(opId))
      .map(({ plugin, words }) =>
        finding("CALL", `plugin ${plugin} ${where} may have a call open that the store does not know: ${words}`, node),
      );
  };

  /** G1, G4 */
  const hear = async (node: NodeRecord, vetting: Vetting, signal: AbortSignal): Promise<Vetted> => {
    let step: FindingKind = "NOT_PROMISED";
    try {
      const promised = await agents.promise(node, vetting, signal);
      const verdict = judgeVetting(vetting, promised.vetting);
      if (verdict !== "same" && verdict !== "older") {
        const { gen, uid } = promised.vetting;
        if (gen - vetting.gen > maxGenerationStep) {
          const error = `node ${node.name} has promised generation ${gen}, which no vetting has reached: see "numbers near 2^53" in docs/repair.md`;
          return { findings: [finding("OTHER_HISTORY", error, node.name)], above: 0 };
        }
        if (uid === "" || lineage.knows(uid)) return { findings: [], above: gen }; // G5
        const other = `OTHER_HISTORY: node ${node.name} has promised generation ${showVetting(promised.vetting)}, which this controller never saw in its store: another history of it may be in use; end that one, or take this one for the true one (holdfast repair vet --accept)`;
        return { findings: [finding("OTHER_HISTORY", other, node.name)], above: gen };
      }
      step = "NOT_TOLD";
      const inventory = await agents.inventory(node, signal);
      // Before anything is granted, by whatever way the gate opens.
      if (inventory.journalUid === node.journalUid) await volumes.noteForeign(node.name, inventory);
      const different = await compareInventory(node, inventory, volumes);
      return { findings: [...(await lostCalls(node.name, promised.openCalls)), ...different], above: 0 };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      const what = step === "NOT_TOLD" ? "tell what it holds" : `promise generation ${vetting.gen}`;
      const words = `node ${node.name} did not ${what}: ${why}`;
      return { findings: [finding(step, words, node.name)], above: 0 };
    }
  };

  const open = async ({ clusterUid, runId, vetting }: StoreIdentity, vetted: boolean): Promise<void> => {
    if (!vetted) await store.markVetted(runId, vetting); // G3
    lineage.remember(clusterUid);
    become({ open: true, vetting, reason: "" });
  };

  const check = async (signal: AbortSignal): Promise<void> => {
    let above = 0;
    for (let begun = 0; begun <= mostBegun; ) {
      const before = overtaken;
      try {
        const identity = await store.identity();
        const stranger = foreign(identity);
        if (stranger !== undefined) return shut([stranger]);
        lineage.saw(identity.vetting.uid);
        const vetted = identity.runId !== "" && identity.runId === identity.vettedRunId;
        if (!vetted && (await begin(identity, above))) {
          begun += 1;
          continue;
        }
        if (!vetted) become({ ...standing, vetting: identity.vetting }, found);
        const told = vetted ? { findings: [], above: 0 } : await vet(identity.vetting, signal);
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
        return shut([finding("STORE", `the store cannot be reached: ${why}`)]);
      }
    }
    shut([finding("STORE", "other controllers vet the store at the same time; it is looked at again")]);
  };

  const pause = async (version: number, signal: AbortSignal): Promise<void> => {
    const until = linkSignals(signal);
    const cancel = standing.open
      ? undefined
      : clock.timer(retryMs, () => until.abort(new DOMException("", "TimeoutError")));
    try {
      await wake.wait(version, until.signal);
    } catch {
      signal.throwIfAborted();
    } finally {
      cancel?.();
      until.dispose();
    }
  };

  return {
    state: () => standing,
    onChange: listeners.on,
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
    async firstLook(mostMs, signal) {
      const until = linkSignals(signal);
      const cancel = clock.timer(mostMs, () => until.abort(new DOMException("", "TimeoutError")));
      try {
        await looks.wait(0, until.signal);
      } catch {
        signal.throwIfAborted();
      } finally {
        cancel();
        until.dispose();
      }
    },
    findings: () => found,
    async accept(who, reason) {
      let identity = await store.identity();
      if (await begin(identity, refused)) identity = await store.identity();
      log.warn("audit: the store was accepted without proof", {
        who,
        why: reason,
        cluster: identity.clusterUid,
        findings: found.map(({ message }) => message),
      });
      await open(identity, false);
      overtaken += 1; // G2
    },
  };
};
