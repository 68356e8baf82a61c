/** What commits say of calls that another life goes on with: which bars stood when, and how each of them went. */

import type { CallBar } from "@holdfast/controller/domain/open-call";
import type { CutRecord } from "@holdfast/controller/domain/snapshot/snapshot";
import type { Commit } from "@holdfast/controller/domain/store-types";
import type { VolumeRecord } from "@holdfast/controller/domain/volume/volume";
import { controllerOf } from "@holdfast/controller/records/sharer-records";
import { readCutBody } from "@holdfast/controller/records/snapshot-codec";
import { readVolumeBody } from "@holdfast/controller/records/volume/volume-body";
import { processAt } from "./processes-beside.ts";

/** How often each happened. */
export interface Takeovers {
  /** A call went to another gate of the same controller, or to another controller, behind a bar. */
  overtaken: number;
  overtakenByOther: number;
  /** Behind a bar to a gate that another controller chooses. */
  handedOn: number;
  /** The next life of a controller, or another controller, went on with a call at the gate that it was given to. */
  inherited: number;
  /** A bar went after its gate said that it is idle, after the call was made once more at the next life, or by another way. */
  liftedByAsking: number;
  liftedByRepeat: number;
}

export const noTakeovers = (): Takeovers => ({
  overtaken: 0,
  overtakenByOther: 0,
  handedOn: 0,
  inherited: 0,
  liftedByAsking: 0,
  liftedByRepeat: 0,
});

export const addTakeovers = (sum: Takeovers, more: Readonly<Takeovers>): void => {
  for (const what of Object.keys(sum) as (keyof Takeovers)[]) sum[what] += more[what];
};

interface Standing {
  readonly key: string;
  /** The process that has the overtaken call, as the book of the backend names it. */
  readonly instance: string;
  readonly since: number;
  until: number;
}

type Barred = Pick<VolumeRecord | CutRecord, "bars" | "intent" | "name" | "externalId">;

const readers: Readonly<Record<string, (body: string) => Barred>> = {
  volume: readVolumeBody,
  snapshot: readCutBody,
  group: readCutBody,
};

const instanceOf = ({ issuer, via }: Pick<CallBar, "issuer" | "via">): string => processAt(controllerOf(issuer), via);

export const createTakeoverBook = (now: () => number) => {
  const counts = noTakeovers();
  const known = new Map<string, Barred>();
  /** Of records that have no bar any more, too: by the id and by the name of their storage. A group's snapshots have its name. */
  const keys = new Map<string, Set<string>>();
  /** By record and bar: one commit may grant several volumes, under one id. */
  const standing = new Map<string, Standing>();
  const nameOf = (key: string, { opId }: CallBar): string => `${key} ${opId}`;

  const compare = (key: string, before: Barred | undefined, after: Barred | undefined, by: string): void => {
    const [barsBefore, bars] = [before?.bars ?? [], after?.bars ?? []];
    for (const bar of bars) {
      if (after === undefined || barsBefore.some(({ opId }) => opId === bar.opId)) continue;
      standing.set(nameOf(key, bar), { key, instance: instanceOf(bar), since: now(), until: Number.POSITIVE_INFINITY });
      if (controllerOf(bar.issuer) === controllerOf(by)) counts.overtaken += 1;
      else counts.overtakenByOther += 1;
      if (after.intent?.via === undefined) counts.handedOn += 1;
    }
    for (const bar of barsBefore) {
      if (bars.some(({ opId }) => opId === bar.opId)) continue;
      const stood = standing.get(nameOf(key, bar));
      if (stood !== undefined) stood.until = now();
      if (bar.issuer === by && bar.beyondGate === undefined) counts.liftedByAsking += 1;
      else counts.liftedByRepeat += 1;
    }
    const [was, is] = [before?.intent, after?.intent];
    if (was?.via !== undefined && is?.via === was.via && is.op === was.op && is.issuer !== was.issuer)
      counts.inherited += 1;
  };

  return {
    counts,
    saw({ writes }: Commit, by: string): void {
      for (const { ref, body } of writes) {
        const read = readers[ref.kind];
        if (read === undefined) continue;
        const key = `${ref.kind} ${ref.key}`;
        const after = body === null ? undefined : read(body);
        compare(key, known.get(key), after, by);
        if (after === undefined) known.delete(key);
        else {
          known.set(key, after);
          for (const storage of [after.externalId, after.name])
            keys.set(storage, (keys.get(storage) ?? new Set()).add(key));
        }
      }
    },
    /** A bar stands whose call is not made once more: the plugin has refused the credentials, and nobody has brought others. */
    lackCredentials: (): boolean =>
      [...known.values()].some(({ bars }) =>
        bars.some(({ attempts }) => attempts.lastError?.reason === "CREDENTIALS_REFUSED"),
      ),
    /** A bar stood then for a call about that storage at that process. */
    stood: (storage: string, instance: string, at: number): boolean =>
      [...standing.values()].some(
        (one) => keys.get(storage)?.has(one.key) && one.instance === instance && one.since <= at && at <= one.until,
      ),
  };
};
