/**
 * The attaches and detaches that lives of this controller before this one left open in plugins beside it. A plugin may still do what such a
 * call asks for when the store knows nothing of it any more.
 *
 * LC1 What the store accounts for is not lost. LC2 What it accounted for under this vetting and does not any more has ended there; that is
 * believed of a store that is vetted under it before and after the look. LC3 Any other call is lost: the life that left it has not promised,
 * for the plugin that it went to, until the plugin answers the same detach to this life, or a person takes that life for gone.
 * LC4 A life that is not proved to be over speaks for itself: its own word stays.
 */
import type { CallNote, CallNotes } from "@holdfast/csi/call-notes";
import type { Vetting } from "@holdfast/model/vetting";
import type { Logger } from "@holdfast/shared/log/logger";
import type { CallLog } from "../call-log.ts";
import type { Store } from "../ports.ts";
import type { GateWord } from "../records/controller-gates.ts";
import { type Finding, finding } from "./finding.ts";

interface LeftCall extends CallNote {
  readonly plugin: string;
  /** The life that made it. */
  readonly issuer: string;
  /** Uid of the vetting under which the store accounted for it last. */
  readonly vetting: string;
}

export interface LeftCalls {
  /** Of the calls that this life makes. */
  notesOf(plugin: string): CallNotes;
  /** Compares with the store, which was found under that vetting. */
  look(vetting: Vetting, knownCalls: () => Promise<ReadonlySet<string>>): Promise<void>;
  /** LC3 */
  words(vetting: Vetting): readonly GateWord[];
  findings(): readonly Finding[];
  /** There is something to compare. */
  some(): boolean;
  /** Somebody takes the calls for ended that are lost: of all lives, or of one. */
  giveUp(issuer?: string): void;
}

export interface LeftCallsDeps {
  readonly calls: CallLog;
  readonly issuer: string;
  readonly isFormerLife: (issuer: string) => boolean;
  /** Uid of the vetting under which calls leave now. */
  readonly vettingUid: () => string;
  readonly store: Pick<Store, "identity">;
  readonly log: Pick<Logger, "warn">;
}

export const createLeftCalls = ({ calls, vettingUid, store, log, ...lives }: LeftCallsDeps): LeftCalls => {
  const left = new Map([...calls.before()].map(([n, text]) => [n, JSON.parse(text) as LeftCall]));
  let lost: ReadonlySet<number> = new Set();

  const drop = (n: number): void => {
    try {
      calls.drop(n);
    } catch (error) {
      log.warn("a call that is over stays in the state directory as an open one", { error });
    }
  };
  const strike = (fits: (call: LeftCall, n: number) => boolean): void => {
    for (const [n, call] of left) {
      if (!fits(call, n)) continue;
      left.delete(n);
      drop(n);
    }
  };
  const lostOnes = (): readonly LeftCall[] => [...left].flatMap(([n, call]) => (lost.has(n) ? [call] : []));
  strike(({ issuer }) => !lives.isFormerLife(issuer)); // LC4

  const standsUnder = async (uid: string): Promise<boolean> => {
    const { vetting, runId, vettedRunId } = await store.identity();
    return vetting.uid === uid && runId === vettedRunId;
  };

  return {
    notesOf(plugin) {
      const open = new Map<string, number>();
      return {
        note(call) {
          const noted: LeftCall = { ...call, plugin, issuer: lives.issuer, vetting: vettingUid() };
          open.set(call.subject, calls.put(JSON.stringify(noted), open.get(call.subject)));
        },
        strike(subject) {
          const n = open.get(subject);
          if (n === undefined) return;
          open.delete(subject);
          drop(n);
        },
        detached(words) {
          strike((call) => call.plugin === plugin && call.words === words); // LC3
        },
      };
    },
    async look({ uid }, knownCalls) {
      if (left.size === 0) return;
      const known = await knownCalls();
      for (const [n, call] of left) {
        if (!known.has(call.opId) || call.vetting === uid) continue;
        left.set(n, { ...call, vetting: uid }); // LC1
        calls.put(JSON.stringify(left.get(n)), n);
      }
      const isEnded = (call: LeftCall): boolean => call.vetting === uid && !known.has(call.opId);
      if ([...left.values()].some(isEnded) && (await standsUnder(uid))) strike(isEnded); // LC2
      lost = new Set([...left].flatMap(([n, { opId }]) => (known.has(opId) ? [] : [n])));
    },
    words: ({ uid }) =>
      [...Map.groupBy(lostOnes(), ({ issuer }) => issuer)].map(([issuer, all]) => ({
        issuer,
        plugins: [...new Set(all.map(({ plugin }) => plugin))].sort(),
        told: uid,
        promised: "",
        lost: true,
        missing: [],
      })),
    findings: () =>
      lostOnes().map(({ plugin, words, issuer }) =>
        finding(
          "CALL",
          `plugin ${plugin} beside this controller may have a call open that the store does not know: ${words}, left by ${issuer}, a life of this controller before this one; restart the plugin, and take the call for ended (holdfast repair vet --accept)`,
        ),
      ),
    some: () => left.size > 0,
    giveUp(issuer) {
      strike((call, n) => lost.has(n) && call.issuer === (issuer ?? call.issuer));
    },
  };
};
