/** What clients ask for, and what a look at the backend finds. */
import { reattachNotWanted, reattachWanted } from "../../../services/controller/src/domain/attachment/owed-change.ts";
import { type Change, withClaim } from "../../../services/controller/src/domain/change.ts";
import {
  publicationLost,
  queueTimedOut,
  releaseWanted,
} from "../../../services/controller/src/domain/claim/claim-change.ts";
import type { Moment } from "../../../services/controller/src/domain/moment.ts";
import { defaultRetry } from "../../../services/controller/src/domain/retry.ts";
import { expansionWanted } from "../../../services/controller/src/domain/size/expand-change.ts";
import { judgeModify } from "../../../services/controller/src/domain/volume/modification.ts";
import { modificationWanted } from "../../../services/controller/src/domain/volume/modify-change.ts";
import type { VolumeRecord } from "../../../services/controller/src/domain/volume/volume.ts";
import { deleteWanted } from "../../../services/controller/src/domain/volume/volume-change.ts";
import type { Go, State } from "../search/search.ts";
import { freshMark } from "./controller-run.ts";
import type { OneVolumeOptions } from "./model-options.ts";
import type { Memory, StoreFile } from "./model-types.ts";
import { firstClaim, goneRecord, plainRecord, wholeRecord } from "./plain-record.ts";
import type { ProductRules } from "./product-rules.ts";
import { at, issuerOf, numberOf, numbers, part, places, read } from "./state-places.ts";

export const createClientMoves = (options: OneVolumeOptions, { one, idOf, once }: ProductRules) => {
  const { claims, wish, wishes = 0, unseen = 0, timeouts = false, volume: begins } = options;
  const momentOf = (issuer: string): Moment => ({
    now: 0,
    issuer,
    opId: freshMark,
    random: 0.5,
    retry: defaultRetry,
  });
  const elsewhere = momentOf("client");

  /** undefined = nothing changes. */
  const changed = (
    state: State,
    name: string,
    decide: (volume: VolumeRecord) => Pick<Change, "volume">,
  ): StoreFile | undefined => {
    const { record } = read(state);
    const file = once<{ readonly record?: StoreFile["record"] }>(`${name}|${idOf(record)}`, () => {
      const before = wholeRecord(record);
      const { volume } = decide(before);
      if (volume === before) return {};
      return { record: one(volume === null ? goneRecord : plainRecord(volume)) };
    });
    return file.record && (file as StoreFile);
  };

  const ofClaims = (state: State, go: Go): void => {
    const { record, left } = read(state);
    if (left.claims > 0)
      for (const node of ["n1", "n2"]) {
        const uid = `k${claims - left.claims + 1}`;
        const asked = changed(state, `claim ${uid} ${node}`, (v) => ({
          volume: withClaim(v, firstClaim(uid, node), 0),
        }));
        if (asked !== undefined)
          go("ask for a claim", `${uid} on ${node}`, {
            [places.store]: asked,
            [places.budget]: one({ ...left, claims: left.claims - 1 }),
          });
      }
    for (const [uid, { node = "", state: now }] of Object.entries(record.claims)) {
      const released = changed(state, `release ${uid}`, (v) => releaseWanted(v, uid, undefined, elsewhere));
      if (released !== undefined) go("release a claim", uid, { [places.store]: released });
      const { lostMounts = 0 } = left;
      const lost =
        lostMounts === 0 ? undefined : changed(state, `lost ${uid}`, (v) => publicationLost(v, uid, elsewhere));
      if (lost !== undefined)
        go("a mount is lost", uid, {
          [places.store]: lost,
          [places.budget]: one({ ...left, lostMounts: lostMounts - 1 }),
          ...(now === "ACTIVE" ? { [at("host", numberOf(node))]: one({ mounted: one([]) }) } : {}),
        });
      const late = timeouts ? changed(state, `late ${uid}`, (v) => queueTimedOut(v, uid, "", elsewhere)) : undefined;
      if (late !== undefined) go("a claim has waited too long", uid, { [places.store]: late });
    }
  };

  const ofVolume = (state: State, go: Go): void => {
    const { left } = read(state);
    if (begins !== undefined)
      for (const n of numbers) {
        const memory = part<Memory>(state, at("memory", n));
        const issuer = issuerOf(n, memory);
        const unwanted = changed(state, `delete ${issuer}`, (v) => deleteWanted(v, undefined, momentOf(issuer)));
        if (memory.up && unwanted !== undefined)
          go("ask for the end of the volume", `c${n}`, { [places.store]: unwanted });
      }
    const { wishes: more = 0 } = left;
    if (wish === undefined || more === 0) return;
    const value = wishes - more + 2;
    const wished = changed(state, `${wish} ${value}`, (v) => {
      if (wish === "expand") return expansionWanted(v, { required: value, limit: 0 }, undefined, elsewhere);
      const verdict = judgeModify(v.mutableParameters, v.modification, { speed: String(value) });
      return verdict.kind === "wish" ? modificationWanted(v, verdict.target, undefined, elsewhere) : { volume: v };
    });
    if (wished !== undefined)
      go(`ask to ${wish}`, `to ${value}`, {
        [places.store]: wished,
        [places.budget]: one({ ...left, wishes: more - 1 }),
      });
  };

  const looks = (state: State, go: Go): void => {
    const { record, left } = read(state);
    const { unseen: more = 0 } = left;
    if (unseen === 0) return;
    for (const node of Object.keys(record.attachments)) {
      const missing =
        more === 0 ? undefined : changed(state, `missing ${node}`, (v) => reattachWanted(v, node, elsewhere));
      if (missing !== undefined)
        go("an attachment is not shown", node, {
          [places.store]: missing,
          [places.budget]: one({ ...left, unseen: more - 1 }),
        });
      const shown = changed(state, `shown ${node}`, (v) => reattachNotWanted(v, node, elsewhere));
      if (shown !== undefined) go("an attachment is shown after all", node, { [places.store]: shown });
    }
  };

  return (state: State, go: Go): void => {
    if (read(state).record.gone) return;
    ofClaims(state, go);
    ofVolume(state, go);
    looks(state, go);
  };
};
