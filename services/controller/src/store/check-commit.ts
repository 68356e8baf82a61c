import { holdsControl } from "@holdfast/model/control-characters";
import { type FieldViolation, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import {
  type AggregateRef,
  aloneEntries,
  type Commit,
  type IndexEntry,
  type RecordWrite,
} from "../domain/store-types.ts";

export const maxBodyBytes = 1 << 20;
const maxKeyBytes = 1024;
const nameOfPlace = /^[a-z][a-z0-9-]{0,62}$/;

const bodyFault = (body: string): string | undefined => {
  // No text is longer in bytes than three times its length: the usual record is not measured at all.
  if (body.length * 3 <= maxBodyBytes) return undefined;
  const bytes = Buffer.byteLength(body);
  return bytes <= maxBodyBytes ? undefined : `has ${bytes} bytes, at most ${maxBodyBytes} are kept`;
};

const keyFault = (key: string): string | undefined => {
  if (key === "") return "is empty";
  // They part lists inside the stores.
  if (holdsControl(key)) return "has control characters or half characters";
  if (key.length * 3 <= maxKeyBytes) return undefined;
  return Buffer.byteLength(key) > maxKeyBytes ? `is longer than ${maxKeyBytes} bytes` : undefined;
};

const count = (value: number, least: number): boolean => Number.isSafeInteger(value) && value >= least;

/** What no implementation may take, with everything that is wrong, checked before anything leaves the process. */
export const checkCommit = (commit: Commit): void => {
  const violations: FieldViolation[] = [];
  const say = (field: string, description: string | undefined): void => {
    if (description !== undefined) violations.push({ field, description });
  };
  const named = (ref: AggregateRef): string => `${ref.kind}/${ref.key}`;

  const checkEntry = ({ index, value }: IndexEntry, field: string): void => {
    if (!nameOfPlace.test(index)) say(field, `"${index}" is no name of an index`);
    if (value !== "") say(`${field}[${index}]`, keyFault(value));
  };
  const checkWrite = (write: RecordWrite, field: string): void => {
    say(`${field}.ref.key`, keyFault(write.ref.key));
    if (!count(write.expectedRev, 0)) say(`${field}.expectedRev`, "is no revision");
    if (write.ttlMs !== undefined && !count(write.ttlMs, 1)) say(`${field}.ttlMs`, "is no duration");
    if (write.body === null) return;
    say(`${field}.body`, bodyFault(write.body));
    for (const entry of write.indexes) checkEntry(entry, `${field}.indexes`);
    for (const { queue, at } of write.due) {
      if (!nameOfPlace.test(queue)) say(`${field}.due`, `"${queue}" is no name of a queue`);
      if (!count(at, 0)) say(`${field}.due[${queue}]`, "is no time");
    }
    if (new Set(write.due.map((d) => d.queue)).size < write.due.length) say(`${field}.due`, "names a queue twice");
  };

  if (commit.opId === "") say("opId", "is empty");
  if (commit.writes.length === 0) say("writes", "is empty: a commit writes at least one record");
  const seen = new Set<string>();
  for (const [i, write] of commit.writes.entries()) {
    const field = `writes[${i}] (${named(write.ref)})`;
    if (seen.has(named(write.ref))) say(field, "is written twice in one commit");
    seen.add(named(write.ref));
    checkWrite(write, field);
  }
  for (const [i, { ref, expectedRev }] of (commit.expects ?? []).entries()) {
    const field = `expects[${i}] (${named(ref)})`;
    if (seen.has(named(ref))) say(field, "is named twice in one commit");
    seen.add(named(ref));
    say(`${field}.ref.key`, keyFault(ref.key));
    if (!count(expectedRev, 0)) say(`${field}.expectedRev`, "is no revision");
  }
  for (const entry of aloneEntries(commit)) checkEntry(entry, "alone");
  for (const [i, { entries, count: most }] of (commit.atMost ?? []).entries()) {
    if (entries.length === 0) say(`atMost[${i}].entries`, "must not be empty");
    for (const entry of entries) checkEntry(entry, `atMost[${i}]`);
    if (!count(most, 0)) say(`atMost[${i}].count`, "is no number of records");
  }
  for (const [i, event] of commit.events.entries()) {
    const field = `events[${i}] (${named(event.ref)})`;
    say(`${field}.ref.key`, keyFault(event.ref.key));
    say(`${field}.body`, bodyFault(event.body));
  }
  if (violations.length > 0) throw invalidArgument(violations);
};
