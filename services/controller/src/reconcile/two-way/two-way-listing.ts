/**
 * A plugin's listing, read from its start to its end. CSI gives no consistent view: rows may come twice, rows may be missing from a
 * page, and a token may stop being good (ABORTED), which begins the list anew. Whoever reads has to be able to begin anew too.
 */
import type { ListingPage, ListingRequest } from "../../domain/listing.ts";
import type { Failure, Outcome } from "../../domain/outcome.ts";

export type ListingStep<T> =
  | { readonly kind: "page"; readonly entries: readonly T[] }
  /** What was read so far counts for nothing: it begins anew. */
  | { readonly kind: "anew" }
  /** The end: all of it was read. */
  | { readonly kind: "complete" }
  /** It could not be read to its end. */
  | { readonly kind: "broken"; readonly failure: Failure };

export interface ListingOptions<T> {
  readonly ask: (page: ListingRequest) => Promise<Outcome<ListingPage<T>>>;
  readonly pageSize: number;
  readonly maxPages: number;
  /** How often it may begin anew. */
  readonly maxRestarts: number;
}

const broken = (message: string): { readonly kind: "broken"; readonly failure: Failure } => ({
  kind: "broken",
  failure: { reason: "LISTING_BROKEN", message, advice: "again" },
});

export const readListing = async function* <T>(options: ListingOptions<T>): AsyncGenerator<ListingStep<T>, void> {
  const { ask, pageSize, maxPages, maxRestarts } = options;
  let token = "";
  let restarts = 0;
  let tokens = new Set<string>();
  for (let page = 0; page < maxPages; page += 1) {
    const answer = await ask({ token, max: pageSize });
    if (answer.kind !== "done") {
      const { failure } = answer;
      if (failure.code !== "ABORTED" || restarts >= maxRestarts) {
        yield { kind: "broken", failure };
        return;
      }
      restarts += 1;
      token = "";
      tokens = new Set();
      yield { kind: "anew" };
      continue;
    }
    yield { kind: "page", entries: answer.value.entries };
    token = answer.value.next;
    if (token === "") {
      yield { kind: "complete" };
      return;
    }
    if (tokens.has(token)) {
      yield broken("the plugin answered the same next_token twice: the list has no end");
      return;
    }
    tokens.add(token);
  }
  yield broken(`the list has more than ${maxPages} pages`);
};
