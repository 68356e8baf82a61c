/**
 * The workloads of this host's runner: prepared, given back, and told as they are.
 *
 * O1 Decisions about one workload are taken one after the other, each on what the one before it journalled.
 * O2 Work belongs to the workload and not to a call: whoever stops waiting ends nothing, and a wait that is over is an
 *    error and never an answer (W5).
 * O3 What is mounted is answered from the journal and the mount table; a controller is asked only for what is missing.
 * O4 A refusal of another caller's ticket is no answer to this one's.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { linkSignals, waitFor } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import {
  type WorkloadName,
  type WorkloadRecord,
  type WorkloadState,
  type WorkloadVolume,
  workloadKey,
} from "../domain/workload-machine.ts";
import type { HostDirs, Ledger, MountTable } from "../ports.ts";
import type { ClaimSeen, ControllerClaims } from "./controller-claims.ts";
import { createHeldClaims, type HeldClaims } from "./held-claims.ts";
import { createReleaseRight, type ReleaseWish, refusedToAnother } from "./release-right.ts";
import { givenBack, journalDamaged, journalFull, otherContent, timeIsUp, workloadNotFound } from "./workload-errors.ts";
import { createWorkloadPrepare, type PrepareOrder } from "./workload-prepare.ts";
import { createWorkloadUndo, type WorkloadUndoOptions } from "./workload-undo.ts";
import { createWorkloadViews, type WorkloadView, type WorkloadViewsOptions } from "./workload-views.ts";

export interface WorkloadManagerOptions {
  readonly ledger: Ledger;
  readonly volumes: WorkloadUndoOptions["volumes"];
  readonly mounts: Pick<MountTable, "look">;
  readonly dirs: Pick<HostDirs, "deviceNumber">;
  readonly haltOf: WorkloadViewsOptions["haltOf"];
  readonly claims: ControllerClaims;
  /** Salted hash of a text. */
  readonly hash: (text: string) => string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface WorkloadOrder extends PrepareOrder {
  readonly volumes: readonly WorkloadVolume[];
}

export interface WorkloadManager {
  /** Goes on with what an earlier life of the agent had begun to take back. */
  resume(): void;
  prepare(order: WorkloadOrder, waitMs: number, caller: AbortSignal): Promise<WorkloadView>;
  /** Answers what is still mounted. */
  release(order: ReleaseWish, waitMs: number, caller: AbortSignal): Promise<readonly ClaimSeen[]>;
  get(name: WorkloadName): Promise<WorkloadView>;
  /** Undefined when it is not known (any more). */
  find(name: WorkloadName): Promise<WorkloadView | undefined>;
  names(): readonly WorkloadName[];
  /** The listener is called when something that is told of a known workload has changed. */
  onChange(listener: (name: WorkloadName) => void): void;
  readonly held: HeldClaims;
}

interface Job {
  readonly ticket: string;
  readonly done: Promise<void>;
  readonly abort: (reason: Error) => void;
  readonly waitingFor: () => string;
}

export function createWorkloadManager(options: WorkloadManagerOptions): WorkloadManager {
  const { ledger, volumes, mounts, dirs, haltOf, claims, hash, clock, random, log, signal } = options;
  const held = createHeldClaims(ledger);
  const lanes = createKeyedLanes();
  const jobs = new Map<string, Job>();
  /** What controllers last said, of claims that a workload of this host has. */
  const told = new Map<string, ClaimSeen>();

  const stateOf = (name: WorkloadName): WorkloadState | undefined => ledger.agent().workloads[workloadKey(name)];
  const listeners: ((name: WorkloadName) => void)[] = [];
  /** What was told of a workload: what only moves on its way is no news. */
  const news = new Map<string, string>();
  const changed = (name: WorkloadName): void => {
    const state = stateOf(name);
    const key = workloadKey(name);
    const now = state === undefined ? undefined : JSON.stringify([state, held.of(name).map(({ claim }) => claim)]);
    if (news.get(key) === now) return;
    if (now === undefined) news.delete(key);
    else news.set(key, now);
    for (const listener of listeners) listener(nameOf(name));
  };
  const commit = async (record: WorkloadRecord): Promise<void> => {
    if (ledger.damage !== undefined) throw journalDamaged(ledger.damage);
    const before = stateOf(record);
    await ledger.commitAgent({ type: "workload", record });
    const uids = Object.values(stateOf(record)?.claimUids ?? {});
    for (const uid of Object.values(before?.claimUids ?? {})) if (!uids.includes(uid)) told.delete(uid);
    changed(record);
    held.touch(record);
  };
  const onTold = (seen: readonly ClaimSeen[]): void => {
    for (const claim of seen) {
      const uids = Object.values(stateOf(claim)?.claimUids ?? {});
      if (uids.includes(claim.uid)) told.set(claim.uid, claim);
      else told.delete(claim.uid);
    }
  };

  const views = createWorkloadViews({ held, mounts, dirs, haltOf, toldOf: (uid) => told.get(uid) });
  const undo = createWorkloadUndo({
    ledger,
    held,
    volumes,
    claims,
    requested: (name) => work.requested(name),
    told: onTold,
    gone: ({ namespace, workload }) => commit({ namespace, workload, type: "gone" }),
    clock,
    random,
    log,
    signal,
  });
  const work = createWorkloadPrepare({
    ledger,
    held,
    views,
    claims,
    commit,
    told: onTold,
    undo: undo.attempt,
    clock,
    random,
    signal,
  });

  /** The processes of a workload that was ready have to be restarted to see a mount that is made anew. */
  held.subscribe((name, before, after) => {
    const state = stateOf(name);
    if (state !== undefined) changed(name);
    if (state?.phase !== "claimed" || before?.phase !== "published" || before.goal !== "mounted") return;
    if (after === undefined || after.goal !== "mounted" || after.phase === "published") return;
    if (!Object.values(state.claimUids).includes(after.facts.claimUid)) return;
    const reason = `the mount of its volume ${after.facts.alias} was lost`;
    void commit({ ...nameOf(name), type: "restart-wanted", since: clock.now(), reason }).catch((error: unknown) => {
      log.error("a workload that has to be restarted could not be written down", { ...nameOf(name), error });
    });
  });

  const mayRelease = createReleaseRight({ stateOf, held, claims });

  const begin = (order: PrepareOrder, first: boolean): Job => {
    const life = linkSignals(signal);
    let waitingFor = "";
    const said = (what: string): void => {
      waitingFor = what;
    };
    const job: Job = {
      ticket: order.ticket,
      done: work.run({ ...order, first }, said, life.signal),
      abort: life.abort,
      waitingFor: () => waitingFor,
    };
    jobs.set(workloadKey(order), job);
    job.done
      .then(
        () => log.info("a workload is prepared", { ...nameOf(order) }),
        (error: unknown) => log.warn("a workload is not prepared", { ...nameOf(order), error }),
      )
      .finally(() => {
        life.dispose();
        jobs.delete(workloadKey(order));
      });
    return job;
  };

  const digestOf = (order: WorkloadOrder): string => hash(JSON.stringify([order.volumes, order.claims])).slice(0, 32);

  /** O1 */
  const decide = async (order: WorkloadOrder): Promise<WorkloadView | Job | "on its way out"> => {
    const state = stateOf(order);
    if (state?.phase === "undoing" || state?.phase === "releasing") return "on its way out";
    const digest = digestOf(order);
    if (state !== undefined && state.digest !== digest) throw otherContent(nameOf(order));
    // It may be of a caller without one, while no controller answered; from now on it is the record of this one (RR2).
    const isTaken = state?.phase === "wanted" && order.ticket !== "";
    const full = state === undefined ? ledger.fullBecause() : undefined;
    if (full !== undefined) throw journalFull(full);
    if (state === undefined || isTaken) {
      const ticketed = order.ticket === "" ? {} : { ticketed: true as const };
      await commit({ ...nameOf(order), type: "wanted", digest, volumes: order.volumes, ...ticketed });
    }
    const known = stateOf(order);
    if (known?.phase === "claimed" && views.isPublished(known)) {
      const view = await views.of(known);
      if (view.ready) return await answered(known, view); // O3
    }
    return jobs.get(workloadKey(order)) ?? begin(order, state === undefined);
  };

  /** Who is told of the mounts starts its processes on them: what they had to be restarted for is over. */
  const answered = async (state: WorkloadState, view: WorkloadView): Promise<WorkloadView> => {
    if (state.restart === undefined) return view;
    await commit({ ...nameOf(state), type: "restarted" });
    const { restart, ...fresh } = view;
    return fresh;
  };

  const untilGone = async (name: WorkloadName, until: AbortSignal): Promise<void> => {
    for (;;) {
      const since = held.version();
      const phase = stateOf(name)?.phase;
      if (phase !== "undoing" && phase !== "releasing") return;
      await held.wait(name, since, until);
    }
  };

  const find = async (name: WorkloadName): Promise<WorkloadView | undefined> => {
    const state = stateOf(name);
    return state === undefined ? undefined : await views.of(state);
  };

  return {
    held,
    find,
    onChange: (listener) => void listeners.push(listener),
    names: () => Object.values(ledger.agent().workloads).map(nameOf),
    resume() {
      for (const state of Object.values(ledger.agent().workloads))
        if (state.phase === "undoing" || state.phase === "releasing") void undo.attempt(nameOf(state));
    },

    async prepare(order, waitMs, caller) {
      const until = linkSignals(caller, signal);
      const cancel = clock.timer(waitMs, () => until.abort(new DOMException("the wait is over", "TimeoutError")));
      let waitingFor = () => "";
      try {
        for (;;) {
          const decided = await lanes.run(workloadKey(order), until.signal, () => decide(order));
          if (decided === "on its way out") {
            waitingFor = () => "its former life is being unmounted";
            await untilGone(order, until.signal);
          } else if ("done" in decided) {
            ({ waitingFor } = decided);
            const refused = refusedToAnother(decided.done, decided.ticket !== order.ticket);
            if (await waitFor(refused, until.signal)) continue; // O4
            const state = stateOf(order);
            if (state?.phase !== "claimed") throw givenBack(nameOf(order));
            const view = await views.of(state);
            if (view.ready) return await answered(state, view);
          } else return decided;
        }
      } catch (error) {
        if (caller.aborted || signal.aborted || !until.signal.aborted) throw error;
        throw timeIsUp(nameOf(order), waitingFor()); // O2
      } finally {
        cancel();
        until.dispose();
      }
    },

    async release(wish, waitMs, caller) {
      const name = nameOf(wish);
      const ticket = await mayRelease(name, wish.ticket, caller);
      await lanes.run(workloadKey(name), caller, async () => {
        jobs.get(workloadKey(name))?.abort(givenBack(name));
        if (stateOf(name)?.phase !== "releasing") await commit({ ...name, type: "release-wanted" });
      });
      const attempt = undo.attempt(name, ticket);
      const until = linkSignals(caller, signal);
      const cancel = clock.timer(waitMs, () => until.abort(new DOMException("the wait is over", "TimeoutError")));
      try {
        if (waitMs > 0) await waitFor(attempt, until.signal);
        for (;;) {
          const since = held.version();
          const left = views.held(name);
          if (left.length === 0 || waitMs <= 0) return left;
          await held.wait(name, since, until.signal);
        }
      } catch (error) {
        if (caller.aborted || signal.aborted || !until.signal.aborted) throw error;
        return views.held(name);
      } finally {
        cancel();
        until.dispose();
      }
    },

    async get(name) {
      const view = await find(name);
      if (view === undefined) throw workloadNotFound(nameOf(name));
      return view;
    },
  };
}

const nameOf = ({ namespace, workload }: WorkloadName): WorkloadName => ({ namespace, workload });
