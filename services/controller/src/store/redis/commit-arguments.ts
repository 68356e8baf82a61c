import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AggregateKind, Commit, CommitResult } from "../../domain/store-types.ts";

/** What hf_commit takes, flat: see library.lua. */
export const commitArguments = (
  prefix: string,
  commit: Commit,
  runId: string,
  maxEvents: number,
): readonly (string | number)[] => {
  const args: (string | number)[] = [
    prefix,
    commit.opId,
    commit.requiresVetted ? 1 : 0,
    runId,
    maxEvents,
    commit.writes.length,
  ];
  for (const w of commit.writes) {
    args.push(
      w.ref.kind,
      w.ref.key,
      w.expectedRev,
      w.body === null ? 0 : 1,
      w.body ?? "",
      w.ttlMs ?? 0,
      w.indexes.length,
    );
    for (const e of w.indexes) args.push(e.index, e.value);
    args.push(w.due.length);
    for (const d of w.due) args.push(d.queue, d.at);
  }
  args.push(commit.events.length);
  for (const e of commit.events) args.push(e.type, e.ref.kind, e.ref.key, e.body);
  return args;
};

type Answer = readonly [1 | 0 | -1, ...string[]];

export const commitResult = (answer: unknown, store: string): CommitResult => {
  const [kind, ...rest] = answer as Answer;
  if (kind === 1) return { ok: true, token: rest[0] ?? "0-0", revs: rest.slice(1).map(Number) };
  if (kind === -1)
    throw new HoldfastError({
      kind: "unavailable",
      reason: "STORE_UNVETTED",
      message: `the store at ${store} restarted or was replaced and is not vetted yet: nothing is granted; releases go on`,
      metadata: { store },
    });
  const conflicts = [];
  for (let i = 0; i + 2 < rest.length; i += 3)
    conflicts.push({ ref: { kind: rest[i] as AggregateKind, key: rest[i + 1] ?? "" }, rev: Number(rest[i + 2]) });
  return { ok: false, conflicts };
};
