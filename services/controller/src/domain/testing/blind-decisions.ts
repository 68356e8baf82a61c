/** Records and decisions that leave something out, of which planted faults are made. */
import { type Change, noChange } from "../change.ts";
import type { Claim } from "../claim/claim.ts";
import type { VolumesByKey } from "../claim/claim-set-change.ts";
import type { Moment } from "../moment.ts";
import type { Failed, Outcome } from "../outcome.ts";
import type { Intent, VolumeRecord } from "../volume/volume.ts";
import { domainRules, type Rules } from "./world-rules.ts";

const { grantSet } = domainRules;

type Hidden = Readonly<Record<string, Claim>>;

/** Decides as if only some claims were there, and puts the others back. */
export const blindTo = (
  volume: VolumeRecord,
  seen: (claim: Claim) => boolean,
  decide: (volume: VolumeRecord) => Change,
): Change => {
  const entries = Object.entries(volume.claims);
  const hidden: Hidden = Object.fromEntries(entries.filter(([, claim]) => !seen(claim)));
  const shown = { ...volume, claims: Object.fromEntries(entries.filter(([, claim]) => seen(claim))) };
  const change = decide(shown);
  if (change.volume === null) return change;
  return change.volume === shown
    ? noChange(volume)
    : { ...change, volume: { ...change.volume, claims: { ...hidden, ...change.volume.claims } } };
};

export const certain = (volume: VolumeRecord, intent: (intent: Intent) => Intent): VolumeRecord =>
  volume.intent === undefined ? volume : { ...volume, intent: intent(volume.intent) };

export const withoutDoubt = ({ uncertainSince: _forgotten, ...intent }: Intent): Intent => intent;

export const done = { kind: "done", value: undefined } as const;
export const isForNow = (outcome: Outcome<unknown>): outcome is Failed =>
  outcome.kind === "refused" && outcome.failure.advice === "block";

/** A final refusal of an attach, over an intent that was changed first. */
export const refusedOver =
  (change: (intent: Intent, at: Moment) => Intent): Rules["attachAnswered"] =>
  (volume, node, outcome, at) => {
    const final = outcome.kind === "refused" && !isForNow(outcome);
    return domainRules.attachAnswered(final ? certain(volume, (i) => change(i, at)) : volume, node, outcome, at);
  };

/** As if no permit had left ahead. */
export const unmarked = (volume: VolumeRecord): VolumeRecord => ({
  ...volume,
  claims: Object.fromEntries(
    Object.entries(volume.claims).map(([uid, { ahead: _forgotten, ...claim }]) => [uid, claim]),
  ),
});

export const idle = ({ intent: _ignored, ...volume }: VolumeRecord): VolumeRecord => volume;

/** Each member granted over a record that was changed first. */
export const grantOver =
  (change: (volume: VolumeRecord, mine: ReadonlySet<string>) => VolumeRecord): Rules["grantSet"] =>
  (volumes, members, factsOf, at) => {
    const mine = new Set(members.map((m) => m.uid));
    const others = new Map(
      [...volumes].map(([key, v]) => [key, Object.entries(v.claims).filter(([uid]) => !mine.has(uid))]),
    );
    const seen: VolumesByKey = new Map([...volumes].map(([key, v]) => [key, change(v, mine)]));
    const { changes, ...rest } = grantSet(seen, members, factsOf, at);
    const back = [...changes].map(([key, c]): [string, Change] => [
      key,
      c.volume === null
        ? c
        : {
            ...c,
            volume: { ...c.volume, claims: { ...Object.fromEntries(others.get(key) ?? []), ...c.volume.claims } },
          },
    ]);
    return { changes: new Map(back), ...rest };
  };
