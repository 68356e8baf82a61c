import type { Clock } from "@holdfast/shared/async/clock";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { formatIdentity } from "@holdfast/shared/grpc/identity";
import type { Tracing } from "@holdfast/shared/tracing";
import type { Caller, Commands, VolumeView } from "../commands/model.ts";
import type { CallerScope } from "../domain/access/caller-scope.ts";
import type { SecretGrants } from "../domain/secret/secret-scope.ts";
import type { VolumeRef } from "../domain/volume/volume.ts";
import type { Store } from "../ports.ts";
import type { Wakeups } from "./hold-until.ts";

/** What the services of holdfast.v1 work with. */
export interface ApiDeps {
  readonly commands: Commands;
  /** A volume as this process knows it: what waits looks at it after each wake-up, and the store is not asked for it. */
  readonly recent: (ref: VolumeRef) => Promise<VolumeView | undefined>;
  readonly granted: SecretGrants;
  /** How far the caller sees: what lists, watches and counts are made of. */
  readonly scopeOf: (identity: CallContext["identity"]) => CallerScope;
  readonly wakeups: Wakeups;
  readonly feed: Pick<Store, "head" | "watch">;
  readonly clock: Clock;
  readonly tracing: Tracing;
}

/** Who asks and in which trace; both are stored with what is asked. */
export const callerOf = (
  { tracing }: Pick<ApiDeps, "tracing">,
  { identity }: Pick<CallContext, "identity">,
  rpc: string,
): Caller => {
  const traceparent = tracing.currentTraceparent();
  return { who: formatIdentity(identity), why: rpc, ...(traceparent === undefined ? {} : { traceparent }) };
};
