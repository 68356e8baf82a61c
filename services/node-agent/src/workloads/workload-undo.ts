/**
 * Takes back what was done for a workload: unmounts here at once and in parallel, whether or not a controller can be
 * reached, and tells one. Goes on until nothing is left, in the background; nobody has to wait for it.
 *
 * U1 What goes is exactly what is owed: of a workload that failed the claims made for it, of one given back all of them.
 * U2 A controller is told only after the request for the claims has ended: none is made behind the release.
 * U3 The record goes last: with nothing held here, and a controller that has the wish on record.
 * U4 Where this node may ask for no claims, or not without a ticket that still holds, those are given back that the journal knows. Nothing is owed of a workload that
 * was not prepared here; what may have been claimed for another one is asked for until it is let.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ReleaseResult } from "../domain/answer-types.ts";
import { type WorkloadName, type WorkloadState, workloadKey } from "../domain/workload-machine.ts";
import type { Ledger, ReleaseOrder } from "../ports.ts";
import type { ClaimSeen, ControllerClaims } from "./controller-claims.ts";
import type { Held, HeldClaims } from "./held-claims.ts";

export interface WorkloadUndoOptions {
  readonly ledger: Pick<Ledger, "agent">;
  readonly held: HeldClaims;
  readonly volumes: { release(order: ReleaseOrder, caller: AbortSignal): Promise<ReleaseResult> };
  readonly claims: Pick<ControllerClaims, "release">;
  /** Resolves when no request for claims of the workload is under way. */
  readonly requested: (name: WorkloadName) => Promise<void>;
  readonly told: (claims: readonly ClaimSeen[]) => void;
  readonly gone: (name: WorkloadName) => Promise<void>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface WorkloadUndo {
  /** Begins it, or makes the next attempt come now. Resolves after that attempt, whatever came of it. `ticket` is shown to controllers. */
  attempt(name: WorkloadName, ticket?: string): Promise<void>;
}

const backoff = { baseMs: 500, capMs: 60_000 };

interface Undoing {
  /** The end of the round under way, or of the one that comes next. */
  round: PromiseWithResolvers<void>;
  hurry(): void;
  /** The last one that came; in memory alone. */
  ticket: string;
}

export function createWorkloadUndo(options: WorkloadUndoOptions): WorkloadUndo {
  const { ledger, held, volumes, claims, requested, told, gone, clock, random, signal } = options;
  const running = new Map<string, Undoing>();

  const stateOf = (name: WorkloadName): WorkloadState | undefined => ledger.agent().workloads[workloadKey(name)];

  /** U1 */
  const owed = (name: WorkloadName): readonly Held[] => {
    const state = stateOf(name);
    const all = held.of(name);
    if (state?.phase !== "undoing") return all;
    const made = new Set(Object.values(state.claimUids));
    return all.filter(({ claim }) => made.has(claim.facts.claimUid));
  };

  const releaseOne = async (name: WorkloadName, { volume, claim }: Held): Promise<void> => {
    const { claimUid, epoch } = claim.facts;
    const order = { ref: volume.ref, claimUid, epoch, nodeEpoch: ledger.agent().nodeEpoch, unasked: true };
    const log = options.log.child({ ...name, volume: volume.ref.volume, claim: claimUid });
    try {
      const result = await volumes.release(order, signal);
      if (result.kind === "pending")
        log.warn("a volume is not unmounted yet", { reason: result.halt.reason, detail: result.halt.message });
      if (result.kind === "refused")
        log.warn("a release was refused", { reason: result.reason, detail: result.message });
    } catch (error) {
      signal.throwIfAborted();
      log.warn(
        "a volume is not unmounted yet",
        isHoldfastError(error) ? { reason: error.reason, detail: error.message } : { error },
      );
    }
  };

  /** All volumes at the same time: one that hangs holds up no other. */
  const unmount = async (name: WorkloadName): Promise<void> => {
    await Promise.all(owed(name).map((one) => releaseOne(name, one)));
  };

  /** Until nothing is owed here; gives up when the time is over, or somebody hurries. */
  const pause = async (name: WorkloadName, undoing: Undoing, ms: number): Promise<void> => {
    const until = linkSignals(signal);
    const over = () => until.abort(new DOMException("the pause is over", "TimeoutError"));
    const cancel = clock.timer(ms, over);
    undoing.hurry = over;
    try {
      for (;;) {
        const since = held.version();
        if (owed(name).length === 0) return;
        await held.wait(name, since, until.signal);
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!until.signal.aborted) throw error;
    } finally {
      cancel();
      until.dispose();
    }
  };

  const unmountAll = async (name: WorkloadName, undoing: Undoing): Promise<void> => {
    for (let failures = 0; ; failures += 1) {
      await unmount(name);
      undoing.round.resolve();
      undoing.round = Promise.withResolvers();
      if (owed(name).length === 0) return;
      await pause(name, undoing, backoff.baseMs / 2 + backoffDelay(failures, backoff, random()));
    }
  };

  const tell = async (name: WorkloadName, undoing: Undoing): Promise<void> => {
    await requested(name); // U2
    let byLives = false;
    for (let failures = 0; ; failures += 1) {
      const state = stateOf(name);
      const known = Object.values(state?.claimUids ?? {});
      const claimUids = state?.phase === "undoing" || byLives ? known : [];
      try {
        const ticket = claimUids.length === 0 ? undoing.ticket : "";
        told(await claims.release({ ...name, claimUids, ticket }, signal));
        return;
      } catch (error) {
        signal.throwIfAborted();
        const detail = isHoldfastError(error) ? { reason: error.reason, detail: error.message } : { error };
        const denied = claimUids.length === 0 && isHoldfastError(error) && error.kind === "permission";
        if (denied && state?.volumes.length === 0) {
          options.log.warn("a release was refused, of a workload that was not prepared here", { ...name, ...detail });
          return; // U4
        }
        if (failures === 0) options.log.warn("no controller has been told of a release yet", { ...name, ...detail });
        if (denied && known.length > 0) {
          byLives = true;
          continue;
        }
        await clock.sleep(backoff.baseMs / 2 + backoffDelay(failures, backoff, random()), signal);
      }
    }
  };

  const run = async (name: WorkloadName, undoing: Undoing): Promise<void> => {
    const phase = stateOf(name)?.phase;
    await Promise.all([unmountAll(name, undoing), tell(name, undoing)]);
    // Given back while it was being undone: then more is owed than before. And a late permit may have come in.
    if (owed(name).length > 0 || stateOf(name)?.phase !== phase) return run(name, undoing);
    await gone(name); // U3
  };

  return {
    async attempt(name, ticket = "") {
      const key = workloadKey(name);
      const known = running.get(key);
      if (known !== undefined && ticket !== "") known.ticket = ticket;
      if (known !== undefined && owed(name).length === 0) return;
      const undoing: Undoing = known ?? { round: Promise.withResolvers(), hurry: () => undefined, ticket };
      const { promise } = undoing.round;
      undoing.hurry();
      if (known === undefined) {
        running.set(key, undoing);
        void run(name, undoing)
          .catch((error: unknown) => {
            if (!signal.aborted) options.log.error("a workload is not released", { ...name, error });
          })
          .finally(() => {
            running.delete(key);
            undoing.round.resolve();
          });
      }
      await promise;
    },
  };
}
