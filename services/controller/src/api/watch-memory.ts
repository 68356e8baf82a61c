/**
 * A watch of what this process knows by heart (nodes, plugins): first all that is there, then SYNCED, then changes.
 *
 * W1 The position is taken before the first resource is read. W2 A token of the first part goes on with the rest of that part. W3 A token
 * is good in the life of the process that gave it, and as far back as its log reaches: else the watch begins anew (EVENTS_TRIMMED).
 */
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { createChecks } from "./check-request.ts";
import type { MemoryLog } from "./memory-log.ts";
import { readToken, writeToken } from "./page-token.ts";
import type { WatchMessage } from "./watch-resources.ts";

export interface WatchedMemory<R> {
  readonly log: MemoryLog;
  readonly question: string;
  readonly token: string;
  readonly keys: () => readonly string[];
  /** undefined: it is not there, or does not fit. */
  readonly get: (key: string) => R | undefined;
  /** What is told of one that is gone: its last known state, if it was sent here. */
  readonly remains: (key: string, last: R | undefined) => R;
  /** Between two looks at what changed, for resources that are dear to put together and change often. */
  readonly rest?: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly signal: AbortSignal;
}

interface Position {
  readonly life: string;
  readonly at: number;
  /** In the first part still: the key behind which to go on. */
  readonly after: string | undefined;
}

const write = ({ life, at, after }: Position, question: string): string =>
  writeToken(JSON.stringify(after === undefined ? [life, at] : [life, at, after]), question);

const parse = (cursor: string): Position | undefined => {
  try {
    const [life, at, after]: readonly unknown[] = JSON.parse(cursor);
    if (typeof life !== "string" || typeof at !== "number" || (after !== undefined && typeof after !== "string"))
      return undefined;
    return { life, at, after };
  } catch {
    return undefined;
  }
};

const read = (token: string, question: string): Position | undefined => {
  const checks = createChecks();
  const cursor = readToken("resume_token", token, question, checks);
  const position = cursor === undefined ? undefined : parse(cursor);
  if (cursor !== undefined && position === undefined) checks.complain("resume_token", "is no token of this watch");
  if (checks.violations.length > 0) throw invalidArgument(checks.violations);
  return position;
};

const trimmed = (): HoldfastError =>
  new HoldfastError({
    kind: "out_of_range",
    reason: "EVENTS_TRIMMED",
    message:
      "this controller no longer knows what changed since the token was given, or another one gave it; open the watch anew with no token",
    metadata: { oldest_token: "" },
  });

export async function* watchMemory<R>(watched: WatchedMemory<R>): AsyncGenerator<WatchMessage<R>> {
  const { log, question, keys, get, remains, signal } = watched;
  const { life } = log;
  const from = read(watched.token, question);
  if (from !== undefined && (from.life !== life || log.since(from.at) === undefined)) throw trimmed(); // W3
  let at = from?.at ?? log.version(); // W1
  const sent = new Map<string, R>();
  if (from === undefined || from.after !== undefined) {
    for (const key of keys()) {
      if (from?.after !== undefined && key <= from.after) continue;
      const resource = get(key);
      if (resource === undefined) continue;
      sent.set(key, resource);
      const resumeToken = write({ life, at, after: key }, question); // W2
      yield { kind: WatchKind.WATCH_KIND_EXISTING, resource, resumeToken };
    }
    const resumeToken = write({ life, at, after: undefined }, question);
    yield { kind: WatchKind.WATCH_KIND_SYNCED, resource: undefined, resumeToken };
  }
  for (;;) {
    const changes = log.since(at);
    if (changes === undefined) throw trimmed();
    for (const { key, at: noted } of changes) {
      at = noted;
      const resumeToken = write({ life, at, after: undefined }, question);
      const resource = get(key);
      if (resource !== undefined) {
        sent.set(key, resource);
        yield { kind: WatchKind.WATCH_KIND_CHANGED, resource, resumeToken };
        continue;
      }
      // What was sent before the token was given is not known here: better told twice that it is gone than never.
      if (from === undefined && !sent.has(key)) continue;
      const last = sent.get(key);
      sent.delete(key);
      yield { kind: WatchKind.WATCH_KIND_REMOVED, resource: remains(key, last), resumeToken };
    }
    await log.wait(at, signal);
    await watched.rest?.(signal);
  }
}
