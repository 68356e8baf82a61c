/**
 * Repeats NodePublishVolume for the claims whose plugin wants it: before its tokens end, and whenever what it is told may be another.
 *
 * Again-3 What is told is asked anew each time: neither tokens nor secrets are kept. Again-4 It is called in the volume's lane, and put off
 * while the lane is taken; a call that hangs ends by a deadline of its own, so that a release waits no longer than that. Again-5 A failure
 * changes nothing on the host: the claim is told as degraded, and it is tried again. Again-6 After a start every publication is in doubt:
 * what is wanted for it is asked at once. Again-7 From the moment a release is ordered nothing is repeated.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import { sameEpoch } from "@holdfast/model/epoch";
import type { Clock } from "@holdfast/shared/async/clock";
import { createLimiter } from "@holdfast/shared/async/limiter";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Metrics } from "@holdfast/shared/metrics";
import type { Halt } from "../domain/answer-types.ts";
import type { AilingClaim } from "../domain/claim-news.ts";
import { judgePermit } from "../domain/judge-order.ts";
import type { HostPaths } from "../domain/paths.ts";
import type { HeldClaim, VolumeRef } from "../domain/types.ts";
import type { Ledger, MountTable, NodePlugins, PermitOrder, PublishTokens, TokenSource } from "../ports.ts";
import { changedHalt, republishHalt } from "./halts.ts";
import { factsOf, namesOf } from "./order-facts.ts";
import { notGivenHalt, republishStep } from "./republish-step.ts";
import type { SecureMount } from "./secure-mount.ts";
import { unlessBusy } from "./unless-busy.ts";
import type { VolumeManager } from "./volume-manager.ts";
import { createVolumeRun } from "./volume-run.ts";

export interface Republisher {
  /** The same manager, whose publications are repeated. */
  readonly volumes: VolumeManager;
  /** What is told of the publications of this plugin, or of this volume, may be another. */
  renew(subject: { readonly plugin: string } | { readonly volumeUid: string }): void;
  /** Claims whose publication cannot be repeated. */
  ailing(): readonly AilingClaim[];
  /** Again-6 */
  start(): void;
}

export interface RepublisherOptions {
  readonly ledger: Ledger;
  readonly plugins: NodePlugins;
  readonly mounts: Pick<MountTable, "look">;
  readonly secure: SecureMount;
  readonly tokens: TokenSource;
  readonly paths: HostPaths;
  readonly hash: (text: string) => string;
  readonly quarantined: () => boolean;
  readonly clock: Clock;
  readonly random: () => number;
  readonly metrics: Pick<Metrics, "counter">;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Entry {
  readonly ref: VolumeRef;
  readonly claimUid: string;
  /** Of the monotonic clock. */
  dueAt: number;
  running: boolean;
  /** Asked for while it ran. */
  again: boolean;
  failures: number;
  failing: { readonly since: number; readonly halt: Halt } | undefined;
}

type Turn =
  | { readonly kind: "done"; readonly nextMs: number }
  /** It is not wanted, or not here. */
  | { readonly kind: "over" }
  /** The lane was taken, or somebody else's order changes the claim. */
  | { readonly kind: "later" }
  | { readonly kind: "failed"; readonly halt: Halt };

const maxAtOnce = 8;
const busyMs = 10_000;
const backoff = { baseMs: 1_000, capMs: 60_000, least: 0.5 } as const;
/** Many at once are spread over so long: after a start, and after a change of a profile. */
const spreadMs = 5_000;
/** What passes by itself is told only when it lasts. */
const quietFailures = 3;

export function createRepublisher(inner: VolumeManager, options: RepublisherOptions): Republisher {
  const { ledger, plugins, tokens, paths, hash, clock, random, log, signal } = options;
  const limiter = createLimiter({ name: "republications", limit: maxAtOnce, maxQueued: Number.POSITIVE_INFINITY });
  const entries = new Map<string, Entry>();
  const count = options.metrics.counter({
    name: "holdfast_republications_total",
    help: "NodePublishVolume again for a claim that is published, with how it ended: OK, or the reason.",
    labels: ["plugin", "code"],
  });
  let stopTimer = (): void => undefined;

  const heldOf = ({ ref, claimUid }: Pick<Entry, "ref" | "claimUid">): HeldClaim | undefined => {
    const held = ledger.volume(ref.volumeUid)?.claims[claimUid];
    return held?.phase === "published" && held.goal === "mounted" ? held : undefined; // Again-7
  };

  const enter = (ref: VolumeRef, claimUid: string, inMs: number): void => {
    const dueAt = clock.monotonic() + inMs;
    const known = entries.get(claimUid);
    if (known === undefined)
      entries.set(claimUid, { ref, claimUid, dueAt, running: false, again: false, failures: 0, failing: undefined });
    else {
      known.dueAt = dueAt;
      known.again = known.running;
    }
  };

  const due = (ref: VolumeRef, claimUid: string, inMs: number): void => {
    enter(ref, claimUid, inMs);
    arm();
  };

  /** Of a publication that was made, or repeated, `sinceMs` ago. */
  const nextIn = (republishMs: number, sinceMs: number): number =>
    Math.max(0, republishMs * (1 - 0.1 * random()) - sinceMs);

  const inLane = async (
    { ref, claimUid }: Entry,
    order: PermitOrder,
    told: PublishTokens,
  ): Promise<Turn | undefined> => {
    const volumePaths = paths.of(ref.plugin, ref.externalId);
    return await unlessBusy(inner, volumePaths.publish, { clock, signal, waitMs: busyMs }, async () => {
      const volume = ledger.volume(ref.volumeUid);
      const held = heldOf({ ref, claimUid });
      if (held === undefined || ledger.damage !== undefined) return { kind: "over" };
      const facts = factsOf(order, volumePaths, hash);
      const standing = { agent: ledger.agent(), quarantined: options.quarantined(), volume, sender: order.vetting };
      const judged = judgePermit(standing, facts, order.claim.oldestLiveEpoch);
      if (judged.kind === "changed") return { kind: "failed", halt: changedHalt(ref, held.facts) };
      if (judged.kind !== "repeat") return { kind: "later" };
      const run = createVolumeRun(ledger, volume);
      try {
        const tools = { ...options, plugin: plugins.get(ref.plugin) };
        const halt = await republishStep(run, claimUid, { contents: order.contents, tokens: told }, tools);
        await run.finish();
        const nextMs = order.contents.republishMs;
        if (halt !== undefined) return { kind: "failed", halt };
        return nextMs === undefined ? { kind: "over" } : { kind: "done", nextMs };
      } catch (error) {
        run.giveUp();
        throw error;
      }
    });
  };

  const turn = async (entry: Entry): Promise<Turn> => {
    const held = heldOf(entry);
    if (held === undefined) return { kind: "over" };
    try {
      const given = await tokens.again(entry.ref, held.facts, signal); // Again-3
      if (given === undefined) return { kind: "over" };
      if (!sameEpoch(given.order.claim.epoch, held.facts.epoch)) return { kind: "later" };
      return (await inLane(entry, given.order, given.tokens)) ?? { kind: "later" }; // Again-4
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      return { kind: "failed", halt: notGivenHalt(entry.ref, error) };
    }
  };

  const failed = (entry: Entry, halt: Halt): void => {
    entry.failures += 1;
    const names = { ...namesOf(entry.ref), claim: entry.claimUid, reason: halt.reason };
    count.inc({ plugin: entry.ref.plugin, code: halt.code === "" ? halt.reason : halt.code });
    if (halt.blocked === undefined && entry.failures < quietFailures) return;
    if (entry.failing === undefined) log.warn("a publication cannot be repeated", { ...names, detail: halt.message });
    const told = halt.blocked === undefined ? republishHalt(entry.ref, { message: halt.message, cure: "" }) : halt;
    // Again-5: one streak is told once, until it is over.
    entry.failing ??= { since: clock.now(), halt: told };
  };

  const take = async (entry: Entry): Promise<void> => {
    const startedAt = clock.monotonic();
    const end = await turn(entry);
    const afterMs = clock.monotonic() - startedAt;
    if (end.kind === "over") {
      if (!entry.again || heldOf(entry) === undefined) entries.delete(entry.claimUid);
      return;
    }
    if (end.kind === "failed") failed(entry, end.halt);
    // Asked ever more rarely, and told to nobody: an order of the volume goes on, or the node is not let.
    if (end.kind === "later") entry.failures += 1;
    if (end.kind === "done") {
      count.inc({ plugin: entry.ref.plugin, code: "OK" });
      if (entry.failing !== undefined)
        log.info("a publication was repeated again", { ...namesOf(entry.ref), claim: entry.claimUid });
      entry.failures = 0;
      entry.failing = undefined;
    }
    const inMs =
      end.kind === "done"
        ? nextIn(end.nextMs, afterMs)
        : backoffDelay(Math.max(0, entry.failures - 1), backoff, random());
    entry.dueAt = clock.monotonic() + (entry.again ? 0 : inMs);
  };

  const pump = (): void => {
    const now = clock.monotonic();
    for (const entry of entries.values()) {
      if (entry.running || entry.dueAt > now) continue;
      entry.running = true;
      entry.again = false;
      limiter
        .run(signal, () => take(entry))
        .catch((error: unknown) => {
          if (signal.aborted) return;
          log.error("a publication could not be repeated", { ...namesOf(entry.ref), claim: entry.claimUid, error });
          entry.dueAt = clock.monotonic() + backoff.capMs;
        })
        .finally(() => {
          entry.running = false;
          arm();
        });
    }
    arm();
  };

  /** One timer, for the first that is due. */
  function arm(): void {
    stopTimer();
    if (signal.aborted) return;
    const waiting = [...entries.values()].filter(({ running }) => !running).map(({ dueAt }) => dueAt);
    if (waiting.length > 0) stopTimer = clock.timer(Math.max(0, Math.min(...waiting) - clock.monotonic()), pump);
  }

  /** A permit that came once more may have been answered by a look alone, and what was told first ends no later for it. */
  const notLater = (ref: VolumeRef, claimUid: string, inMs: number): void => {
    const known = entries.get(claimUid);
    if (known === undefined || known.dueAt > clock.monotonic() + inMs) due(ref, claimUid, inMs);
  };

  const drop = (claimUid: string): void => {
    if (entries.delete(claimUid)) arm();
  };

  const doubt = (meant: (ref: VolumeRef) => boolean): void => {
    for (const { ref, claims } of ledger.volumes())
      if (meant(ref))
        for (const claimUid of Object.keys(claims))
          if (heldOf({ ref, claimUid }) !== undefined) enter(ref, claimUid, spreadMs * random());
    arm();
  };

  return {
    volumes: {
      ...inner,
      async publish(order, caller) {
        const startedAt = clock.monotonic();
        const result = await inner.publish(order, caller);
        const { claimUid } = order.claim;
        const { republishMs } = order.contents;
        if (result.kind !== "published") return result;
        if (republishMs === undefined) drop(claimUid);
        else notLater(order.ref, claimUid, nextIn(republishMs, clock.monotonic() - startedAt));
        return result;
      },
      release(order, caller) {
        drop(order.claimUid); // Again-7
        return inner.release(order, caller);
      },
    },
    renew(subject) {
      doubt((ref) => ("plugin" in subject ? ref.plugin === subject.plugin : ref.volumeUid === subject.volumeUid));
    },
    ailing: () =>
      [...entries.values()].flatMap((entry) => {
        const held = heldOf(entry);
        if (entry.failing === undefined || held === undefined) return [];
        const { ref, claimUid, failing } = entry;
        return [{ ref, claimUid, epoch: held.facts.epoch, ...failing }];
      }),
    start: () => doubt(() => true),
  };
}
