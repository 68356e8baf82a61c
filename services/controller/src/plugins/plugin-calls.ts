/**
 * What every family of calls has in common: the instance that is called, the secrets of the one call, and what it means when
 * nothing could be sent. Nothing is repeated here: whoever owes the effect has stored so before it asks.
 */

import type { CallSubject } from "@holdfast/csi/call-spans";
import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { CsiCaller } from "@holdfast/csi/csi-caller";
import { gateSubject } from "@holdfast/csi/gate-subject";
import type { Code } from "@holdfast/csi/outcome";
import type { RefusedCredentials } from "@holdfast/csi/refused-credentials";
import type { Unsayable } from "@holdfast/csi/volume-capability";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type CallSite, type Leave, type Seat, seatOfCall } from "../domain/open-call.ts";
import type { Failure, Outcome } from "../domain/outcome.ts";
import type { CallTarget } from "../domain/plugin/instance-reach.ts";
import type { Segments, VolumeRef } from "../domain/volume/volume.ts";
import type { CallContext } from "../ports.ts";
import type { Secrets, SecretUse } from "../secrets/secrets.ts";
import { thingOf } from "./gates.ts";

/** One running process of a plugin that may be called now, however it is reached. */
export interface PluginInstance extends Pick<CsiCaller, "call" | "stream"> {
  readonly id: string;
  /** The node it runs on, or its socket beside the controller; the other one is empty. */
  readonly at: { readonly node: string; readonly socket: string };
  /** The life of the agent that holds its socket; absent for one beside the controller. */
  readonly gate?: string;
  /** The incarnation of its node. */
  readonly gateEpoch?: number;
  readonly facts: PluginFacts;
  /** It failed lately, or does not answer. */
  readonly rests: boolean;
  /** Its own place, when it reaches no other. */
  readonly own?: Segments;
}

/** Why no instance may take a call, although the plugin has some that can be called. */
export interface OutOfReach {
  readonly reason: "PLUGIN_NOT_READY" | "PLUGIN_AMBIGUOUS" | "PLACE_UNKNOWN";
  readonly message: string;
}

export interface EveryInstance {
  readonly here: readonly PluginInstance[];
  /** Where instances are that cannot be asked: without them nothing is complete. */
  readonly missing: readonly string[];
}

/** Which instance of a plugin a call goes to. */
export interface InstanceChoice {
  /** The one that a call goes to now. */
  current(target: CallTarget): PluginInstance | undefined;
  /** undefined = the call waits for no other reason than that no instance can be called. */
  outOfReach(target: CallTarget): OutOfReach | undefined;
  /** Instances that together have everything: one that reaches all, or every one with a place of its own. */
  every(plugin: string): EveryInstance;
}

export interface PluginCalls {
  /** The instance that a call about the target goes to now, as far as that is known without asking. */
  instance(target: CallTarget): PluginInstance | undefined;
  /** The same; where the place of storage is not known every instance is asked. */
  find(target: CallTarget, signal: AbortSignal): Promise<PluginInstance | undefined>;
  /** The instances that together have everything, each asked in turn, or why one of them cannot be. */
  readonly every: InstanceChoice["every"];
  /** The instance that a call may be given to, or why there is none. */
  seek(target: CallTarget): Promise<Seat | Failure>;
  /** One call with its secrets, or why there is none; `wanted` is asked last, in the turn in which the call leaves. */
  run<T>(
    target: CallTarget,
    secret: SecretNeed | undefined,
    call: Send<T>,
    wanted?: CallContext["wanted"],
  ): Promise<Outcome<T>>;
  /** A call of an effect that is owed: at the instance that it was given to by the record's intent, and at no other. */
  change<T>(
    record: CallTarget & { readonly intent?: CallSite },
    secret: SecretNeed,
    context: CallContext,
    call: Send<T>,
  ): Promise<Outcome<T>>;
}

/** The secret of a call, and what it is read for: the audit keeps that. */
export interface SecretNeed extends SecretUse {
  readonly ref: string | undefined;
}

type Send<T> = (
  instance: PluginInstance,
  secrets: Readonly<Record<string, string>>,
  /** The reference to the very version that these secrets are of, where versions are kept. */
  pinned: string | undefined,
) => Promise<Outcome<T>>;

export interface PluginCallsOptions {
  readonly instances: InstanceChoice;
  /** Asks every instance for storage of which no place is known. */
  readonly locate: (target: CallTarget, signal: AbortSignal) => Promise<PluginInstance | undefined>;
  /** Why there is none. */
  readonly trouble: (plugin: string) => string;
  readonly secrets: Secrets;
  readonly refused: RefusedCredentials;
}

const nothingNeeded: SecretUse = { volume: undefined, method: "" };

/** Questions that precede a call. */
const locateMs = 30_000;

export const seatOf = ({ id, ...life }: PluginInstance): Seat => seatOfCall(id, life);

export const done = <T>(value: T): Outcome<T> => ({ kind: "done", value });

export const nothing = (): Outcome<void> => done(undefined);

/** Nothing was sent. With "block" somebody has to do something first; it is still looked at again. */
export const notSent = (
  reason: string,
  message: string,
  advice: "again" | "block" = "again",
): { readonly kind: "unknown"; readonly failure: Failure } => ({
  kind: "unknown",
  failure: { reason, message, advice, call: "not-sent" },
});

/** The plugin has answered, and not what it was asked for: nobody knows what it did. */
export const senseless = (message: string): { readonly kind: "unknown"; readonly failure: Failure } => ({
  kind: "unknown",
  failure: { reason: "INTERNAL", message, advice: "again", call: "ended" },
});

/** Certain, and for good: nothing was sent, and no repeat will be better. */
export const refusedHere = (message: string, code?: Code): Outcome<never> => ({
  kind: "refused",
  failure: {
    reason: "PLUGIN_REFUSED",
    message,
    advice: "fail",
    call: "not-sent",
    ...(code === undefined ? {} : { code }),
  },
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

const knownAs = (target: CallTarget): readonly string[] => {
  const { name = "", externalId: id = "" } = target;
  const known = [...(name === "" ? [] : [{ name }]), ...(id === "" ? [] : [{ id }])];
  return known.map((one) => gateSubject(thingOf(target), one));
};

/** The instance as calls of one attempt use it. */
const ordered = (instance: PluginInstance, target: CallTarget, leave: Leave | undefined): PluginInstance => {
  if (leave?.order === undefined) return instance;
  const own = { order: { ...leave.order, knownAs: knownAs(target) }, begun: leave.begun };
  return { ...instance, call: (method, request, options) => instance.call(method, request, { ...options, ...own }) };
};

export const createPluginCalls = (options: PluginCallsOptions): PluginCalls => {
  const { instances, locate, trouble, secrets, refused } = options;
  const find = async (target: CallTarget, signal?: AbortSignal): Promise<PluginInstance | undefined> => {
    const known = instances.current(target);
    if (known !== undefined || target.via !== undefined) return known;
    return await locate(target, signal ?? AbortSignal.timeout(locateMs));
  };

  const notGiven = (target: CallTarget): ReturnType<typeof notSent> => {
    const { plugin, via } = target;
    if (via !== undefined)
      return notSent("PLUGIN_NOT_READY", `plugin instance "${via}" of plugin ${plugin} cannot be called now`);
    const { reason, message } = instances.outOfReach(target) ?? {
      reason: "PLUGIN_NOT_READY",
      message: trouble(plugin),
    };
    return notSent(reason, message, reason === "PLUGIN_NOT_READY" ? "again" : "block");
  };

  const run: PluginCalls["run"] = async (target, need, call, wanted) => {
    const { plugin } = target;
    const found = await find(target);
    if (found === undefined) return notGiven(target);
    try {
      const secret = await secrets.read(need?.ref, target.namespace, need ?? nothingNeeded);
      // Reading the secret may have taken long.
      const leave = await wanted?.(found.id);
      if (wanted !== undefined && leave === undefined)
        return notSent(
          "ABORTED",
          `the call to plugin ${plugin} was not to be made any more when it was about to leave`,
        );
      return await call(refused.guard(plugin, ordered(found, target, leave), secret), secret.values, secret.pinned);
    } catch (error) {
      if (!isHoldfastError(error)) throw error;
      if (error.reason === "SECRET_UNREADABLE" || error.reason === "AUDIT_UNAVAILABLE")
        return notSent(error.reason, error.message);
      if (error.reason === "SECRET_NOT_FOUND" || error.reason === "SECRETS_UNAVAILABLE")
        return notSent(error.reason, error.message, "block");
      if (error.kind !== "invalid") throw error;
      // Our own bounds found the request unfit before it was sent: no repeat will ever be better.
      const { reason, message } = error;
      return { kind: "refused", failure: { reason, message, advice: "fail", call: "not-sent" } };
    }
  };
  return {
    instance: instances.current,
    every: instances.every,
    find,
    async seek(target) {
      const found = await find(target);
      return found === undefined ? notGiven(target).failure : seatOf(found);
    },
    run,
    async change(record, need, { wanted }, call) {
      const { via, openSince } = record.intent ?? {};
      const given = { ...record, via };
      // Nothing of it has left: another instance is given it.
      const free = via !== undefined && openSince === undefined && instances.current(given)?.rests === true;
      if (free && instances.current({ ...record, via: undefined })?.rests === false) return notGiven(given);
      return await run(given, need, call, wanted);
    },
  };
};
