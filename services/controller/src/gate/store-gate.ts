/**
 * Whether anything may be granted or offered from the store as it is now. A store that was restarted, restored or replaced may have
 * forgotten grants that agents hold; from such a memory a second writer could be granted.
 *
 * I8 an unvetted store grants nothing: the gate is shut until the process behind the store is the one that was vetted.
 * G1 Vetting asks every READY node, and a fenced one that is heard: a store that lost writes may show a fence that is long over. A node
 * that does not answer keeps the gate shut and is named. G2 A suspicion during a vetting makes it
 * begin anew. G3 What was vetted is recorded in the store, which compares it at every grant by itself.
 */

import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { inTurns } from "@holdfast/shared/async/in-turns";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import { isFenced } from "../domain/node/fence.ts";
import type { StoreIdentity } from "../domain/store-types.ts";
import type { AgentGateway, Nodes, Store, StoreGate } from "../ports.ts";
import { isSilent } from "../records/grant-facts.ts";
import { compareInventory, type Finding, type KnownVolumes } from "./compare-inventory.ts";

export interface StoreGateOptions {
  readonly store: Pick<Store, "identity" | "markVetted" | "onSuspect">;
  readonly nodes: Pick<Nodes, "list" | "onChange">;
  readonly agents: Pick<AgentGateway, "inventory">;
  readonly volumes: KnownVolumes;
  /** The installation that this controller belonged to before; it is remembered once one was seen. */
  readonly lineage: { read(): string | undefined; remember(clusterUid: string): void };
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
  /** What keeps it shut. */
  findings(): readonly Finding[];
  /** Opens it in spite of the findings, on somebody's word. */
  accept(who: string, reason: string): Promise<void>;
}

const retryMs = 2_000;
/** Agents asked at the same time. */
const abreast = 16;

export const createStoreGate = (options: StoreGateOptions): VettedStoreGate => {
  const { store, nodes, agents, volumes, lineage, clock, log } = options;
  const wake = createNotifier();
  const looks = createNotifier();
  const listeners = createEmitter();
  let standing = { open: false, gen: 0, reason: "the store was not looked at yet" };
  let found: readonly Finding[] = [];
  let suspicion = 0;

  const become = (next: typeof standing, findings: readonly Finding[] = []): void => {
    const changed = next.open !== standing.open || next.reason !== standing.reason || next.gen !== standing.gen;
    standing = next;
    found = findings;
    if (!changed) return;
    if (next.open) log.info("the store may grant", { gen: next.gen });
    else log.warn("the store grants nothing", { reason: next.reason });
    listeners.tell();
  };

  const shut = (findings: readonly Finding[]): void => {
    const [first] = findings;
    const more = findings.length > 1 ? ` (and ${findings.length - 1} more)` : "";
    become({ open: false, gen: 0, reason: `${first?.message ?? "unknown"}${more}` }, findings);
  };

  store.onSuspect((reason) => {
    suspicion += 1; // G2
    shut([{ node: "", namespace: "", volume: "", message: `the store may be another one than before: ${reason}` }]);
    wake.notify();
  });
  nodes.onChange(() => {
    if (!standing.open) wake.notify();
  });

  const foreign = ({ clusterUid }: StoreIdentity): Finding | undefined => {
    const before = lineage.read();
    return before === undefined || before === clusterUid
      ? undefined
      : {
          node: "",
          namespace: "",
          volume: "",
          message: `the store belongs to installation ${clusterUid}, and this controller to ${before}: point it at its own store, or give it an empty state directory`,
        };
  };

  const vet = async (signal: AbortSignal): Promise<readonly Finding[]> => {
    const asked = nodes.list().filter((view) => !isFenced(view.record) || !isSilent(view));
    if (asked.length === 0) {
      const fresh = nodes.list().length === 0 && (await volumes.none());
      return fresh ? [] : [{ node: "", namespace: "", volume: "", message: "no node is READY to say what it holds" }];
    }
    const findings: Finding[] = [];
    await inTurns(asked, abreast, async ({ record }) => {
      findings.push(...(await inventoryOf(record, signal)));
    });
    signal.throwIfAborted();
    return findings.sort((a, b) => (a.node < b.node ? -1 : 1));
  };

  /** G1 */
  const inventoryOf = async (
    node: Parameters<AgentGateway["inventory"]>[0],
    signal: AbortSignal,
  ): Promise<readonly Finding[]> => {
    try {
      const inventory = await agents.inventory(node, signal);
      // Before anything is granted, by whatever way the gate opens.
      if (inventory.journalUid === node.journalUid) await volumes.noteForeign(node.name, inventory);
      return await compareInventory(node, inventory, volumes);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return [
        { node: node.name, namespace: "", volume: "", message: `node ${node.name} did not tell what it holds: ${why}` },
      ];
    }
  };

  const open = async ({ clusterUid, runId, gen }: StoreIdentity, vetted: boolean): Promise<void> => {
    const next = Math.max(1, gen);
    if (!vetted) await store.markVetted(runId, next); // G3
    lineage.remember(clusterUid);
    become({ open: true, gen: next, reason: "" });
  };

  const check = async (signal: AbortSignal): Promise<void> => {
    for (;;) {
      const before = suspicion;
      try {
        const identity = await store.identity();
        const stranger = foreign(identity);
        if (stranger !== undefined) return shut([stranger]);
        const vetted = identity.runId !== "" && identity.runId === identity.vettedRunId;
        const findings = vetted ? [] : await vet(signal);
        if (suspicion !== before) continue; // G2
        if (findings.length > 0) return shut(findings);
        await open(identity, vetted);
        if (suspicion === before) return;
        // The suspicion came while the answer was on its way; the store compares by itself, and it is looked at again.
        become({ open: false, gen: 0, reason: "the store changed while it was vetted" });
      } catch (error) {
        signal.throwIfAborted();
        const why = error instanceof Error ? error.message : String(error);
        return shut([{ node: "", namespace: "", volume: "", message: `the store cannot be reached: ${why}` }]);
      }
    }
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
      const identity = await store.identity();
      log.warn("audit: the store was accepted without proof", {
        who,
        why: reason,
        cluster: identity.clusterUid,
        findings: found.map(({ message }) => message),
      });
      await open(identity, false);
    },
  };
};
