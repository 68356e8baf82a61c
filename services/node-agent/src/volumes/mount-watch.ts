/**
 * Looks after what is published: is it still there, does it still answer? A mount that vanished or died is known as lost from
 * then on, so that controllers send its permit again and workloads hear that they have to be restarted.
 *
 * D1 This process touches no path that a volume covers: it reads the mount table, and a child that may be killed does the rest.
 * D2 One look at a volume at a time; what hangs is a state of that volume and of no other.
 * D3 Only what is proved dead is unmounted, just before its volume is staged again: nothing is ever mounted over it.
 */

import type { MountLine } from "@holdfast/model/mountinfo";
import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { createLimiter } from "@holdfast/shared/async/limiter";
import type { Logger } from "@holdfast/shared/log/logger";
import { type Ailment, ailmentOf, mayAil } from "../domain/ailment.ts";
import type { Halt } from "../domain/answer-types.ts";
import type { AilingClaim } from "../domain/claim-news.ts";
import type { HeldClaim, LostClaim, VolumeRef, VolumeState } from "../domain/types.ts";
import { isAtRest } from "../domain/volume-machine.ts";
import type { DeadMounts, KillableChildren, Ledger, MountTable } from "../ports.ts";
import { ailmentHalt } from "./halts.ts";
import { namesOf } from "./order-facts.ts";

export interface MountWatch extends DeadMounts {
  /** One look at everything; those that are asked for meanwhile are one more. */
  check(): Promise<void>;
  /** Checks again and again, and whenever it is told that something has changed, until its signal is aborted. */
  start(intervalMs: number, onChange: (listener: () => void) => unknown): void;
  /** Publications that were lost and are not back: to be told to every controller. */
  lost(): readonly LostClaim[];
  /** Claims whose mounts do not answer, or are dead and stay as they are. */
  ailing(): readonly AilingClaim[];
}

export interface MountWatchOptions {
  readonly ledger: Ledger;
  readonly mounts: Pick<MountTable, "look">;
  readonly rootDir: string;
  readonly children: KillableChildren;
  /** In the volume's lane: what is missing, or one of these mounts, is known as lost. Answers the claims. */
  readonly lose: (ref: VolumeRef, dead: ReadonlySet<number>) => Promise<readonly HeldClaim[]>;
  /** `report`: what died stays mounted, and is told. */
  readonly policy: "restage" | "report";
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Ailing {
  readonly ref: VolumeRef;
  readonly kind: Ailment;
  readonly path: string;
  readonly halt: Halt;
  readonly since: number;
}

const maxAtOnce = 8;
/** More than any volume has mounts: a mount that comes back as fast as it goes must not keep the lane. */
const maxUnmounts = 32;

export function createMountWatch(options: MountWatchOptions): MountWatch {
  const { ledger, mounts, rootDir, children, lose, policy, clock, log, signal } = options;
  const limiter = createLimiter({ name: "mount checks", limit: maxAtOnce, maxQueued: Number.POSITIVE_INFINITY });
  const ailing = new Map<string, Ailing>();
  const losses = new Map<string, LostClaim>();

  /** D1 */
  const probe = async ({ volumeUid }: VolumeRef, line: MountLine): Promise<Ailment | undefined> =>
    ailmentOf(line, await children.run(volumeUid, "stat", ["-f", "-c", "%T", "--", line.path]));

  const note = (ref: VolumeRef, kind: Ailment | undefined, path: string, served: readonly string[]): void => {
    const before = ailing.get(ref.volumeUid);
    if (before?.kind === kind) return;
    if (kind === undefined) {
      ailing.delete(ref.volumeUid);
      log.info("a volume answers again", { ...namesOf(ref), path });
      return;
    }
    const halt = ailmentHalt(ref, kind, path, served);
    ailing.set(ref.volumeUid, { ref, kind, path, halt, since: clock.now() });
    log.error("a mounted volume does not answer", { ...namesOf(ref), reason: halt.reason, path });
  };

  const declareLost = async (ref: VolumeRef, dead: readonly MountLine[], reason: string): Promise<void> => {
    for (const { facts } of await lose(ref, new Set(dead.map(({ id }) => id)))) {
      const { claimUid, epoch } = facts;
      losses.set(claimUid, { ref, claimUid, epoch, since: clock.now(), reason });
      log.error("a publication is lost", { ...namesOf(ref), claim: claimUid, reason });
    }
  };

  const checkVolume = async (
    { ref, stage, claims }: VolumeState,
    shown: ReadonlyMap<string, MountLine>,
  ): Promise<void> => {
    const published = Object.values(claims).filter(isPublished);
    const lines = published.map(({ facts }) => shown.get(facts.target));
    if (lines.includes(undefined)) await declareLost(ref, [], "MOUNT_MISSING");
    const line = lines.find((it) => it !== undefined && mayAil(it));
    if (line === undefined) return;
    const kind = await probe(ref, line);
    // One server has all mounts of the volume: what is dead at one place is dead at every other.
    const mounted = [...lines, shown.get(stage.path)].filter((it) => it !== undefined);
    const served = mounted.filter(({ device }) => device === line.device);
    const paths = served.map((it) => it.path);
    note(ref, kind, line.path, paths);
    if (kind !== "dead" || policy === "report") return;
    await declareLost(ref, served, "MOUNT_DEAD");
  };

  const checkAll = async (): Promise<void> => {
    const view = await mounts.look(false);
    const shown = new Map(view.under(rootDir).map((line) => [line.path, line]));
    const volumes = [...ledger.volumes()].filter(({ claims }) => Object.values(claims).some(isPublished));
    const checked = await Promise.allSettled(
      volumes.map((volume) => limiter.run(signal, () => checkVolume(volume, shown))), // D2
    );
    for (const one of checked) if (one.status === "rejected") throw one.reason;
  };

  let under: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const check = (): Promise<void> => {
    if (under === undefined) {
      under = checkAll().finally(() => {
        under = undefined;
      });
      return under;
    }
    next ??= under
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        return check();
      });
    return next;
  };

  return {
    check,
    start(intervalMs, onChange) {
      const onError = (error: unknown): void => {
        if (!signal.aborted) log.error("the mounts of the volumes could not be looked at", { error });
      };
      onChange(() => void check().catch(onError));
      // Ends with the signal, and with nothing else.
      every(intervalMs, check, { signal, clock, jitter: 0.1, immediate: true, onError }).catch(() => undefined);
    },

    async clear({ ref, stage, claims }) {
      const known = ailing.get(ref.volumeUid);
      if (known === undefined || policy === "report") return undefined;
      const paths = [stage.path, ...Object.values(claims).map(({ facts }) => facts.target)];
      for (let count = 0; count < maxUnmounts; count += 1) {
        const view = await mounts.look(false);
        const lines = paths.flatMap((path) => view.under(path)).filter(mayAil);
        const dead = await lastDead(ref, lines);
        if (dead === undefined) {
          ailing.delete(ref.volumeUid);
          return undefined;
        }
        const end = await children.run(ref.volumeUid, "umount", ["--lazy", "--no-canonicalize", dead.path]); // D3
        log.warn("a dead mount was taken away", { ...namesOf(ref), path: dead.path, ended: end.kind === "ended" });
        if (end.kind === "hung" || end.code !== 0) return known.halt;
      }
      return known.halt;
    },

    halts() {
      forgetReleased();
      return new Map([...ailing].map(([uid, { halt }]) => [uid, halt]));
    },

    ailing() {
      forgetReleased();
      return [...ailing.values()]
        .filter(({ kind }) => kind === "hung" || policy === "report")
        .flatMap(({ ref, halt, since }) =>
          Object.values(ledger.volume(ref.volumeUid)?.claims ?? {}).map(({ facts: { claimUid, epoch } }) => ({
            ...{ ref, claimUid, epoch, since, halt },
          })),
        );
    },

    lost() {
      for (const [uid, { ref }] of losses) {
        const claim = ledger.volume(ref.volumeUid)?.claims[uid];
        if (claim === undefined || claim.goal === "released" || claim.phase === "published") losses.delete(uid);
      }
      return [...losses.values()];
    },
  };

  /** While anything is held the note stays, since `clear` goes by it. */
  function forgetReleased(): void {
    for (const uid of ailing.keys()) {
      const volume = ledger.volume(uid);
      if (volume === undefined || isAtRest(volume)) ailing.delete(uid);
    }
  }

  /** The topmost first: what lies under a mount cannot be reached. */
  async function lastDead(ref: VolumeRef, lines: readonly MountLine[]): Promise<MountLine | undefined> {
    for (const line of lines.toReversed()) if ((await probe(ref, line)) === "dead") return line;
    return undefined;
  }
}

const isPublished = ({ phase, goal }: HeldClaim): boolean => phase === "published" && goal === "mounted";
