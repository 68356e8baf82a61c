/** Volumes that come, change and go. Handlers check all of the input, store what is wanted and hold the answer if asked to. */
import type { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import type { VolumeView } from "../../commands/model.ts";
import {
  validateCreateVolume,
  validateDeleteVolume,
  validateRegisterVolume,
  validateUpdateVolume,
} from "../../commands/volume/validate-volume.ts";
import { isUnbound } from "../../domain/claim/early-claims.ts";
import { checkString } from "../../domain/limits.ts";
import { type VolumeRecord, type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import { hidingForeign } from "../access/hide-foreign.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks, durationMs, refuseAll } from "../check-request.ts";
import { holdUntil } from "../hold-until.ts";
import { volumeMessage } from "./convert-volume.ts";
import { createVolumeInput, registerVolumeInput, updateVolumeInput } from "./convert-volume-request.ts";

type VolumeService = Implementation<typeof VolumeServiceDefinition>;

export interface PolicyDeps {
  /** What NodePublishVolume is told of the volume may be another now. */
  readonly policyChanged?: (volume: VolumeRecord) => void;
}

export const createVolumeLifecycle = (
  deps: ApiDeps & PolicyDeps,
): Pick<VolumeService, "createVolume" | "registerVolume" | "updateVolume" | "deregisterVolume" | "deleteVolume"> => {
  const { commands, recent, wakeups, clock } = deps;

  /** As this process knows it now; undefined when it is gone, or another one has its id. */
  const sameLife = async (ref: VolumeRef, uid: string): Promise<VolumeView | undefined> => {
    const view = await recent(ref);
    return view?.volume.uid === uid ? view : undefined;
  };

  /** Asks, and holds the answer until this life of the volume is as it is waited for. */
  const held = async (
    ref: VolumeRef,
    waitMs: number,
    context: CallContext,
    ask: () => Promise<VolumeView | undefined>,
    settled: (view: VolumeView) => boolean,
  ): Promise<{ readonly first: VolumeView; readonly last: VolumeView | undefined } | undefined> => {
    const since = wakeups.version();
    const first = await ask();
    if (first === undefined) return undefined;
    const last = await holdUntil<VolumeView | undefined>({
      wakeups,
      clock,
      context,
      waitMs,
      since,
      first,
      keys: [volumeKey(ref)],
      // A volume that vanished meanwhile has been deleted by somebody.
      settled: (view) => view === undefined || settled(view),
      read: () => sameLife(ref, first.volume.uid),
    });
    return { first, last };
  };

  const made = async (ref: VolumeRef, waitMs: number, context: CallContext, ask: () => Promise<VolumeView>) => {
    const answer = await held(ref, waitMs, context, ask, settledOrUnbound);
    const view = answer?.last ?? answer?.first;
    return { volume: view === undefined ? undefined : volumeMessage(view) };
  };

  /**
   * What waits for its first claim is not waited for by whoever makes it: the claim may be theirs. One that is wanted and is deleted
   * again is on its way to another place, or to its failure.
   */
  const settledOrUnbound = ({ volume }: VolumeView): boolean => {
    const { state, goal } = volume;
    return isUnbound(volume) || (state !== "CREATING" && (state !== "DELETING" || goal === "absent"));
  };

  return {
    async createVolume(request, context) {
      const checks = createChecks();
      const input = createVolumeInput(request, checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateCreateVolume(input, deps.granted));
      const caller = callerOf(deps, context, "CreateVolume");
      return await made(input, waitMs, context, () => commands.createVolume(input, caller));
    },

    async registerVolume(request, context) {
      const checks = createChecks();
      const input = registerVolumeInput(request, checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateRegisterVolume(input, deps.granted));
      const caller = callerOf(deps, context, "RegisterVolume");
      const scope = deps.scopeOf(context.identity);
      return await made(input, waitMs, context, () =>
        hidingForeign(scope, input, () => commands.registerVolume(input, caller)),
      );
    },

    async updateVolume(request, context) {
      const checks = createChecks();
      const input = updateVolumeInput(request, checks);
      for (const { field, description } of checkString("reason", request.reason)) checks.complain(field, description);
      refuseAll(checks, () => validateUpdateVolume(input, deps.granted));
      const caller = callerOf(deps, context, request.reason === "" ? "UpdateVolume" : request.reason);
      const view = await commands.updateVolume(input, caller, context.signal);
      if (input.update.policy !== undefined) deps.policyChanged?.(view.volume);
      return { volume: volumeMessage(view) };
    },

    async deregisterVolume({ namespace, id, uid, requestId }, context) {
      const caller = callerOf(deps, context, "DeregisterVolume");
      const { plugin, externalId } = await commands.deregisterVolume({ namespace, id, uid, requestId }, caller);
      const left = externalId === "" ? [] : [`storage ${externalId} of plugin ${plugin} stays as it is, with its data`];
      return { plugin, externalId, leftBehind: left };
    },

    async deleteVolume(request, context) {
      const checks = createChecks();
      const { namespace, id, uid, requestId } = request;
      const input = { namespace, id, uid, requestId };
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateDeleteVolume(input));
      const caller = callerOf(deps, context, "DeleteVolume");
      const ask = () => commands.deleteVolume(input, caller);
      const answer = await held(input, waitMs, context, ask, () => false);
      return answer?.last === undefined ? {} : { volume: volumeMessage(answer.last) };
    },
  };
};
