/**
 * Brings one workload to its mounts: waits for those it replaces, claims all or nothing, and waits until everything is
 * mounted here. Works on whether or not anybody waits; ends when it is ready, has failed, is blocked, or was given back.
 *
 * E1 Nothing is asked of a controller before the wish is journalled (Z1), and a request is never given up in the middle.
 * E2 What may have been made stays owed: only a certain refusal of the first request ends the record without an undo. One that is about the
 *    caller says nothing of a request before it.
 * E3 The permits come from the controller, each on its own: no volume waits for another one here.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals, waitFor } from "@holdfast/shared/async/signals";
import { type ErrorKind, type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type WorkloadName, type WorkloadRecord, type WorkloadState, workloadKey } from "../domain/workload-machine.ts";
import type { Ledger } from "../ports.ts";
import type { ClaimPhaseSeen, ClaimSeen, ControllerClaims, WantedClaim } from "./controller-claims.ts";
import type { HeldClaims } from "./held-claims.ts";
import { claimBlocked, claimFailed, givenBack } from "./workload-errors.ts";
import type { WorkloadViews } from "./workload-views.ts";

export interface PrepareOrder extends WorkloadName {
  readonly claims: readonly WantedClaim[];
  readonly replaces: readonly string[];
  readonly requestId: string;
  /** Of the scheduler, in the words of its caller; empty: none. Kept nowhere. */
  readonly ticket: string;
  /** Waits also for holders that it does not name, until its runner gives it back. */
  readonly queued?: boolean;
}

export interface WorkloadPrepareOptions {
  readonly ledger: Pick<Ledger, "agent">;
  readonly held: HeldClaims;
  readonly views: WorkloadViews;
  readonly claims: Pick<ControllerClaims, "request" | "watch">;
  readonly commit: (record: WorkloadRecord) => Promise<void>;
  readonly told: (claims: readonly ClaimSeen[]) => void;
  /** One attempt to take back what was done; it goes on by itself. */
  readonly undo: (name: WorkloadName) => Promise<void>;
  readonly clock: Clock;
  readonly random: () => number;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

export interface WorkloadPrepare {
  /** Rejects with a HoldfastError that says why it is not ready. `waitingFor` is told what it waits for. */
  run(
    order: PrepareOrder & { readonly first: boolean },
    waitingFor: (what: string) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** Resolves when no request for claims of the workload is under way. */
  requested(name: WorkloadName): Promise<void>;
}

/** Over, or on the way there: never usable (again). */
const isLost: Readonly<Record<ClaimPhaseSeen, boolean>> = {
  QUEUED: false,
  ATTACHING: false,
  OFFERED: false,
  ACTIVE: false,
  RELEASING: false,
  DETACHING: false,
  RELEASED: true,
  FAILED: true,
  FENCED: true,
};

/** The request may have been followed although this came back. */
const isUncertain: Readonly<Partial<Record<ErrorKind, true>>> = {
  unavailable: true,
  deadline: true,
  cancelled: true,
  unknown: true,
  internal: true,
  data_loss: true,
};

const backoff = { baseMs: 200, capMs: 5_000 };

export function createWorkloadPrepare(options: WorkloadPrepareOptions): WorkloadPrepare {
  const { ledger, held, views, claims, commit, told, undo, clock, random } = options;
  const requests = new Map<string, Promise<unknown>>();

  const stateOf = (name: WorkloadName): WorkloadState | undefined => ledger.agent().workloads[workloadKey(name)];

  const replaced = async (order: PrepareOrder, waitingFor: (what: string) => void, signal: AbortSignal) => {
    for (const workload of order.replaces) {
      const name = { namespace: order.namespace, workload };
      for (;;) {
        const since = held.version();
        if (held.of(name).length === 0) break;
        waitingFor(`it waits for workload ${workload}, which it replaces, to be unmounted here`);
        await held.wait(name, since, signal);
      }
    }
    waitingFor("");
  };

  const request = async (
    order: PrepareOrder & { readonly first: boolean },
    signal: AbortSignal,
  ): Promise<readonly ClaimSeen[]> => {
    const { namespace, workload, requestId, replaces, queued = false, ticket } = order;
    signal.throwIfAborted();
    // E1: whoever gives the workload back meanwhile waits for its end, so that nothing is claimed behind a release.
    const wanted = { namespace, workload, claims: order.claims, requestId, after: replaces, queued, ticket };
    const asked = claims.request(wanted, options.signal);
    const key = workloadKey(order);
    requests.set(key, asked);
    try {
      return await asked;
    } catch (error) {
      const certain =
        isHoldfastError(error) && isUncertain[error.kind] === undefined && (order.first || error.kind !== "permission");
      if (certain && stateOf(order)?.phase === "wanted") await commit({ namespace, workload, type: "gone" }); // E2
      throw error;
    } finally {
      requests.delete(key);
    }
  };

  const claimed = async (name: WorkloadName, seen: readonly ClaimSeen[]): Promise<void> => {
    const claimUids = Object.fromEntries(seen.map(({ alias, uid }) => [alias, uid]));
    const known = stateOf(name)?.claimUids ?? {};
    const same = seen.every(({ alias, uid }) => known[alias] === uid) && Object.keys(known).length === seen.length;
    if (!same || stateOf(name)?.phase === "wanted") await commit({ ...nameOf(name), type: "claimed", claimUids });
  };

  /** What a controller says of these lives: rejects when they cannot become usable. */
  const judge = (name: WorkloadName, seen: readonly ClaimSeen[]): { readonly failed: ClaimSeen } | undefined => {
    told(seen);
    const lost = seen.filter(({ state }) => isLost[state]);
    // A set ends as a whole: the member that it ended for says why.
    const failed = lost.find(({ failure }) => failure?.reason !== "SET_MEMBER_FAILED") ?? lost[0];
    if (failed !== undefined) return { failed };
    for (const claim of seen) if (claim.blocked !== undefined) throw claimBlocked(name, claim, claim.blocked);
    return undefined;
  };

  const watchController = async (
    name: WorkloadName,
    claimUids: readonly string[],
    waitingFor: (what: string) => void,
    signal: AbortSignal,
  ): Promise<ClaimSeen> => {
    let failures = 0;
    for (;;) {
      let pause = 0;
      try {
        const seen = await claims.watch({ ...nameOf(name), claimUids }, signal);
        failures = 0;
        const judged = judge(name, seen);
        if (judged !== undefined) return judged.failed;
        waitingFor(seen.find((claim) => claim.waitingFor !== "")?.waitingFor ?? "");
        // All granted, and its permits on their way: what comes next shows here.
        if (seen.every(({ state }) => state === "ACTIVE")) pause = backoff.capMs;
      } catch (error) {
        signal.throwIfAborted();
        if (!isHoldfastError(error) || isUncertain[error.kind] === undefined) throw error;
        waitingFor("no controller can be reached");
        pause = backoffDelay(failures, backoff, random());
        failures += 1;
      }
      if (pause > 0) await clock.sleep(pause, signal);
    }
  };

  const mounted = async (name: WorkloadName, signal: AbortSignal): Promise<undefined> => {
    for (;;) {
      const since = held.version();
      const state = stateOf(name);
      if (state?.phase !== "claimed") throw givenBack(name);
      if (views.isPublished(state) && (await views.of(state)).ready) return undefined;
      await held.wait(name, since, signal);
    }
  };

  return {
    async run(order, waitingFor, signal) {
      await replaced(order, waitingFor, signal);
      const seen = await waitFor(request(order, signal), signal);
      await claimed(order, seen);
      const until = linkSignals(signal);
      try {
        const failed =
          judge(order, seen)?.failed ??
          (await Promise.race([
            mounted(order, until.signal),
            watchController(
              order,
              seen.map(({ uid }) => uid),
              waitingFor,
              until.signal,
            ),
          ]));
        if (failed === undefined) return;
        const { volume, alias } = failed;
        const reason = failed.failure?.reason ?? failed.state;
        await commit({ ...nameOf(order), type: "failed", failure: { reason, volume, alias } });
        await undo(nameOf(order));
        throw claimFailed(order, failed) satisfies HoldfastError;
      } finally {
        until.abort(new DOMException("the other one was first", "AbortError"));
      }
    },
    async requested(name) {
      await requests.get(workloadKey(name))?.catch(() => undefined);
    },
  };
}

const nameOf = ({ namespace, workload }: WorkloadName): WorkloadName => ({ namespace, workload });
