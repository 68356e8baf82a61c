/**
 * What every family of calls has in common: the instance that is called, the secrets of the one call, and what it means when
 * nothing could be sent. Nothing is repeated here: whoever owes the effect has stored so before it asks.
 */
import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { CsiCaller } from "@holdfast/csi/csi-caller";
import type { CallSubject } from "@holdfast/csi/csi-exchange";
import type { Code } from "@holdfast/csi/outcome";
import type { RefusedCredentials } from "@holdfast/csi/refused-credentials";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Failure, Outcome } from "../domain/outcome.ts";
import type { VolumeRef } from "../domain/volume.ts";
import type { CallContext } from "../ports.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { Unsayable } from "./convert.ts";

/** One running process of a plugin that may be called now, however it is reached. */
export interface PluginInstance extends Pick<CsiCaller, "call" | "stream"> {
  readonly id: string;
  /** The node it runs on, or its socket beside the controller; the other one is empty. */
  readonly at: { readonly node: string; readonly socket: string };
  readonly facts: PluginFacts;
}

export interface PluginCalls {
  /** The instance that a call goes to now. */
  instance(plugin: string): PluginInstance | undefined;
  /** One call of an effect that is owed, with its secrets; or why there is no call. */
  run<T>(
    plugin: string,
    secretRef: string | undefined,
    call: (
      instance: PluginInstance,
      secrets: Readonly<Record<string, string>>,
      /** The reference to the very version that these secrets are of, where versions are kept. */
      pinned: string | undefined,
    ) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>>;
}

export interface PluginCallsOptions {
  readonly instance: (plugin: string) => PluginInstance | undefined;
  /** Another instance than this could be called now. */
  readonly another: (plugin: string, id: string) => boolean;
  /** Why there is none. */
  readonly trouble: (plugin: string) => string;
  readonly secrets: Secrets;
  readonly refused: RefusedCredentials;
}

export const done = <T>(value: T): Outcome<T> => ({ kind: "done", value });

export const nothing = (): Outcome<void> => done(undefined);

/** Nothing was sent. With "block" somebody has to do something first; it is still looked at again. */
export const notSent = (
  reason: string,
  message: string,
  advice: "again" | "block" = "again",
): { readonly kind: "unknown"; readonly failure: Failure } => ({
  kind: "unknown",
  failure: { reason, message, advice },
});

/** Certain, and for good: nothing was sent, and no repeat will be better. */
export const refusedHere = (message: string, code?: Code): Outcome<never> => ({
  kind: "refused",
  failure: { reason: "PLUGIN_REFUSED", message, advice: "fail", ...(code === undefined ? {} : { code }) },
});

export const unsayable = (plugin: string, { mode, because }: Unsayable): Outcome<never> =>
  because === "unknown"
    ? notSent("PLUGIN_NOT_READY", `plugin ${plugin} has not told yet whether it knows access mode ${mode}`)
    : refusedHere(
        `plugin ${plugin} does not know access mode ${mode}: it lacks the capability SINGLE_NODE_MULTI_WRITER`,
        "UNIMPLEMENTED",
      );

/** What the call is about, for its span. */
export const subjectOf = (ref: VolumeRef, { attempt, claim }: CallContext, node?: string): CallSubject => ({
  namespace: ref.namespace,
  volume: ref.id,
  attempt,
  ...(claim === undefined ? {} : { claim }),
  ...(node === undefined ? {} : { node }),
});

/** What is owed goes on at another instance at once: its outcome is stored first, and the doubt about this call with it. */
const orElsewhere = <T>(outcome: Outcome<T>, another: () => boolean): Outcome<T> =>
  outcome.kind === "unknown" && outcome.failure.code === "UNAVAILABLE" && another()
    ? { ...outcome, failure: { ...outcome.failure, elsewhere: true } }
    : outcome;

export const createPluginCalls = ({
  instance,
  another,
  trouble,
  secrets,
  refused,
}: PluginCallsOptions): PluginCalls => ({
  instance,
  async run(plugin, secretRef, call) {
    const found = instance(plugin);
    if (found === undefined) return notSent("PLUGIN_NOT_READY", trouble(plugin));
    try {
      const secret = await secrets.read(secretRef);
      const outcome = await call(refused.guard(plugin, found, secret), secret.values, secret.pinned);
      return orElsewhere(outcome, () => another(plugin, found.id));
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      if (error.reason === "SECRET_UNREADABLE") return notSent(error.reason, error.message);
      if (error.reason === "SECRET_NOT_FOUND" || error.reason === "SECRETS_UNAVAILABLE")
        return notSent(error.reason, error.message, "block");
      if (error.kind !== "invalid") throw error;
      // Our own bounds found the request unfit before it was sent: no repeat will ever be better.
      return { kind: "refused", failure: { reason: error.reason, message: error.message, advice: "fail" } };
    }
  },
});
