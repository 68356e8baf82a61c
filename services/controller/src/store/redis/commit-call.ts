import { hash } from "node:crypto";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import {
  type AggregateRef,
  aloneEntries,
  type Commit,
  type CommitResult,
  type IndexEntry,
  type RecordWrite,
} from "../../domain/store-types.ts";
import { eventToken } from "../event-token.ts";
import { memberOf, type RedisKeys } from "./redis-keys.ts";

/** The arguments of the `commit` and the answers of library.lua, whose head describes both. */

export interface CommitTerms {
  readonly clusterUid: string;
  /** The process that the connection leads to. */
  readonly runId: string;
  /** The highest generation seen: a store with a lower one has lost something, and one with a higher one was vetted anew since. */
  readonly gen: number;
  readonly maxEvents: number;
  /** The newest format that this release reads. */
  readonly newest: number;
  /** The highest number of a commit that was seen: a store with a lower one has lost commits. */
  readonly sequence: number;
}

const tabbed = (texts: readonly (string | number)[]): string => texts.join("\t");

const entryOf = ({ index, value }: IndexEntry): string => `${index}:${value}`;

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A short key for a text of any length; the usual one is short enough, and no hash looks like it. */
const shortened = (opId: string): string => (uuid.test(opId) ? opId : hash("sha256", opId, "base64url").slice(0, 16));

/** The record as library.lua keeps it, with the revision that follows what is expected; its head says how. */
const recordOf = ({ expectedRev, body, due, indexes }: RecordWrite): string => {
  if (body === null) return "";
  const entries = tabbed([...new Set(indexes.map(entryOf))]);
  return `${expectedRev + 1} 0 1\n${tabbed(due.map(({ queue }) => queue))}\n${entries}\n${body}`;
};

const wordsOf = (write: RecordWrite): readonly (string | number)[] => {
  const { expectedRev, body, ttlMs = "", due } = write;
  if (body === null) return [expectedRev, "", "", ""];
  return [expectedRev, recordOf(write), ttlMs, tabbed(due.map(({ at }) => at))];
};

/** Everything after FCALL and the name of the function; made anew for each connection, as the process may be another. */
export const encodeCommit = (keys: RedisKeys, commit: Commit) => {
  const expects = commit.expects ?? [];
  const records = [...commit.writes, ...expects].map(({ ref }) => keys.record(ref));
  const names = [keys.meta, keys.events, keys.expiry, keys.answer(shortened(commit.opId)), ...records];
  const compared = [
    tabbed(expects.map(({ expectedRev }) => expectedRev)),
    tabbed((commit.atMost ?? []).flatMap(({ entries, count }) => [count, entries.length, ...entries.map(entryOf)])),
  ];
  const written = [
    ...commit.writes.flatMap(wordsOf),
    ...commit.events.flatMap((event) => [event.type, memberOf(event.ref), event.body]),
  ];
  const alone = tabbed(aloneEntries(commit).map(entryOf));
  return (terms: CommitTerms): readonly (string | number)[] => {
    const run = commit.requiresVetted ? terms.runId : "";
    const store = [keys.prefix, terms.clusterUid, run, terms.gen, terms.maxEvents];
    return [
      names.length,
      ...names,
      ...store,
      alone,
      ...compared,
      terms.newest,
      commit.raisesFormat ?? "",
      terms.sequence,
      ...written,
    ];
  };
};

export type CommitAnswer =
  | { readonly kind: "result"; readonly result: CommitResult }
  | {
      readonly kind: "unvetted";
      readonly runId: string;
      readonly vettedRunId: string;
      readonly gen: number;
      readonly ofVettedHistory: boolean;
    }
  | { readonly kind: "behind"; readonly sequence: number }
  | { readonly kind: "damaged"; readonly ref: AggregateRef; readonly damage: string }
  | { readonly kind: "meta"; readonly field: string; readonly found: string }
  | { readonly kind: "newer"; readonly format: number }
  | { readonly kind: "foreign"; readonly clusterUid: string };

export const decodeCommit = (commit: Commit, runId: string, reply: unknown): CommitAnswer => {
  const [word, ...fields] = reply as readonly (string | number)[];
  const text = (at: number): string => String(fields[at] ?? "");
  const compared = (nth: unknown) => [...commit.writes, ...(commit.expects ?? [])][Number(nth) - 1];
  switch (word) {
    case "ok": {
      const revs = text(1).split(",").map(Number);
      const order = { sequence: Number(fields[2]), gen: Number(fields[3]) };
      return { kind: "result", result: { ok: true, revs, token: eventToken(runId, Number(fields[0])), order } };
    }
    case "conflict": {
      const conflicts: { ref: RecordWrite["ref"]; rev: number }[] = [];
      for (let at = 0; at < fields.length; at += 2) {
        const record = compared(fields[at]);
        if (record !== undefined) conflicts.push({ ref: record.ref, rev: Number(fields[at + 1]) });
      }
      return { kind: "result", result: { ok: false, conflicts } };
    }
    case "crowded":
      return { kind: "result", result: { ok: false, conflicts: [], crowded: true } };
    case "full": {
      const full = fields.flatMap((nth) => commit.atMost?.[Number(nth) - 1]?.entries ?? []);
      return { kind: "result", result: { ok: false, conflicts: [], full } };
    }
    case "damaged":
      return { kind: "damaged", ref: compared(fields[0])?.ref ?? { kind: "meta", key: "" }, damage: text(1) };
    case "meta":
      return { kind: "meta", field: text(0), found: text(1) };
    case "unvetted":
      return {
        kind: "unvetted",
        runId: text(0),
        vettedRunId: text(1),
        gen: Number(fields[2]),
        ofVettedHistory: text(3) === "1",
      };
    case "behind":
      return { kind: "behind", sequence: Number(fields[0]) };
    case "newer":
      return { kind: "newer", format: Number(fields[0]) };
    case "foreign":
      return { kind: "foreign", clusterUid: text(0) };
    default:
      throw new HoldfastError({
        kind: "internal",
        reason: "INTERNAL",
        message: `the function library of the store answered "${String(word)}", which this version does not know`,
      });
  }
};
