/** ExpandVolume and ModifyVolume. */
import type { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import type { VolumeView } from "../../commands/model.ts";
import { validateExpandVolume, validateModifyVolume } from "../../commands/volume/validate-volume.ts";
import { isPending } from "../../domain/size/expansion.ts";
import { pendingNodes } from "../../domain/size/growth.ts";
import { isModifying } from "../../domain/volume/modification.ts";
import { type VolumeRef, volumeKey } from "../../domain/volume/volume.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks, durationMs, refuseAll } from "../check-request.ts";
import { holdUntil } from "../hold-until.ts";
import { volumeMessage } from "./convert-volume.ts";

type VolumeService = Implementation<typeof VolumeServiceDefinition>;

/** Gone, over, or nothing that goes on without somebody's help. */
export const expansionIsOver = (view: VolumeView | undefined): boolean => {
  if (view === undefined || view.volume.state !== "AVAILABLE") return true;
  const { expansion } = view.volume;
  if (isPending(expansion)) return expansion.blocked !== undefined;
  return pendingNodes(view.volume).every(({ blocked }) => blocked !== undefined);
};

const modificationIsOver = (view: VolumeView | undefined): boolean => {
  if (view === undefined || view.volume.state !== "AVAILABLE") return true;
  const { modification } = view.volume;
  return !isModifying(modification) || modification.blocked !== undefined;
};

export const createVolumeChanges = (deps: ApiDeps): Pick<VolumeService, "expandVolume" | "modifyVolume"> => {
  const { commands, recent, wakeups, clock } = deps;

  const held = async (
    ref: VolumeRef,
    first: VolumeView,
    how: Pick<Parameters<typeof holdUntil<VolumeView | undefined>>[0], "settled" | "waitMs" | "since"> & {
      readonly context: CallContext;
    },
  ) => {
    const last = await holdUntil<VolumeView | undefined>({
      ...how,
      wakeups,
      clock,
      first,
      keys: [volumeKey(ref)],
      read: async () => {
        const view = await recent(ref);
        return view?.volume.uid === first.volume.uid ? view : undefined;
      },
    });
    return { volume: volumeMessage(last ?? first) };
  };

  return {
    async expandVolume(request, context) {
      const checks = createChecks();
      const { namespace, id, requestId } = request;
      const input = {
        namespace,
        id,
        requestId,
        capacity: {
          required: Number(request.capacity?.requiredBytes ?? 0n),
          limit: Number(request.capacity?.limitBytes ?? 0n),
        },
      };
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateExpandVolume(input));
      const since = wakeups.version();
      const first = await commands.expandVolume(input, callerOf(deps, context, "ExpandVolume"));
      return await held(input, first, { context, waitMs, since, settled: expansionIsOver });
    },

    async modifyVolume(request, context) {
      const checks = createChecks();
      const { namespace, id, requestId, mutableParameters } = request;
      const input = { namespace, id, requestId, mutableParameters };
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateModifyVolume(input));
      const since = wakeups.version();
      const first = await commands.modifyVolume(input, callerOf(deps, context, "ModifyVolume"));
      return await held(input, first, { context, waitMs, since, settled: modificationIsOver });
    },
  };
};
