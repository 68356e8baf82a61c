import type { Capability } from "../capabilities.ts";
import type { IdKind } from "../ids.ts";
import type { SimState } from "../model.ts";
import type { Method, Requests, Responses } from "../rpc.ts";
import type { BackendSettings, ListingLies } from "../settings.ts";

/** What an effect works on besides its request. */
export interface EffectContext {
  readonly state: SimState;
  readonly listing: ListingLies;
  readonly settings: BackendSettings;
  readonly capabilities: ReadonlySet<Capability>;
  /** The node of the calling instance; empty for a controller's. */
  readonly node: string;
  readonly now: () => Date;
  readonly idOf: (kind: IdKind, name: string) => string;
}

/**
 * Applies an admitted call to the state and answers. Effects are idempotent of themselves, whatever the rules say, and
 * throw RefusedError where the storage cannot comply.
 */
export type Effect<M extends Method> = (request: Requests[M], context: EffectContext) => Responses[M];

export type Effects<M extends Method> = { readonly [K in M]: Effect<K> };
