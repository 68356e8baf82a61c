/**
 * Every watch of resources: first all that exists, then SYNCED, then changes, each message with a token to go on from.
 *
 * W1 The position in the stream of events is taken before the first resource is read, so that no change falls between the two. W2 A token
 * of the first part goes on with the rest of that part. W3 An event only wakes: what is sent is read then. W4 A stream that its caller does
 * not read holds little: a page is at most as long as what was taken before it, and a message is made when it is sent.
 */
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import type { Page, PageInput } from "../commands/model.ts";
import type { StoredEvent } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { createChecks } from "./check-request.ts";
import { readToken, writeToken } from "./page-token.ts";

export interface WatchMessage<R> {
  readonly kind: WatchKind;
  readonly resource: R | undefined;
  readonly resumeToken: string;
}

export interface Watched<V, R> {
  readonly feed: Pick<Store, "head" | "watch">;
  /** Ties tokens to their watch and filter. */
  readonly question: string;
  readonly token: string;
  readonly page: (page: PageInput) => Promise<Page<V>>;
  readonly message: (view: V) => R;
  /** What an event means to this watch, undefined for nothing. */
  readonly changeOf: (event: StoredEvent) => Promise<{ readonly gone: boolean; readonly resource: R } | undefined>;
  readonly signal: AbortSignal;
}

/** About as many as a call takes before it waits for its reader. */
const firstPageSize = 16;
const longestPageSize = 200;

interface Position {
  readonly at: string;
  /** In the first part still: the page to begin with, "" for the first. */
  readonly page: string | undefined;
}

const write = ({ at, page }: Position, question: string): string =>
  writeToken(JSON.stringify(page === undefined ? [at] : [at, page]), question);

const read = (token: string, question: string): Position | undefined => {
  const checks = createChecks();
  const cursor = readToken("resume_token", token, question, checks);
  const position = cursor === undefined ? undefined : parse(cursor);
  if (cursor !== undefined && position === undefined) checks.complain("resume_token", "is no token of this watch");
  if (checks.violations.length > 0) throw invalidArgument(checks.violations);
  return position;
};

const parse = (cursor: string): Position | undefined => {
  try {
    const [at, page]: readonly unknown[] = JSON.parse(cursor);
    if (typeof at !== "string" || (page !== undefined && typeof page !== "string")) return undefined;
    return { at, page };
  } catch {
    return undefined;
  }
};

export async function* watchResources<V, R>(watched: Watched<V, R>): AsyncGenerator<WatchMessage<R>> {
  const { feed, question, signal } = watched;
  const { at, page } = read(watched.token, question) ?? { at: await feed.head(), page: "" }; // W1
  if (page !== undefined) {
    let cursor: string | undefined = page;
    let taken = 0;
    while (cursor !== undefined) {
      const size = Math.min(Math.max(firstPageSize, taken), longestPageSize); // W4
      const { items, next }: Page<V> = await watched.page({ size, after: cursor === "" ? undefined : cursor, signal });
      signal.throwIfAborted();
      const resumeToken = write({ at, page: cursor }, question); // W2
      for (const view of items)
        yield { kind: WatchKind.WATCH_KIND_EXISTING, resource: watched.message(view), resumeToken };
      taken += items.length;
      cursor = next;
    }
    yield {
      kind: WatchKind.WATCH_KIND_SYNCED,
      resource: undefined,
      resumeToken: write({ at, page: undefined }, question),
    };
  }
  for await (const event of feed.watch(at, signal)) {
    const change = await watched.changeOf(event); // W3
    if (change === undefined) continue;
    yield {
      kind: change.gone ? WatchKind.WATCH_KIND_REMOVED : WatchKind.WATCH_KIND_CHANGED,
      resource: change.resource,
      resumeToken: write({ at: event.token, page: undefined }, question),
    };
  }
}
