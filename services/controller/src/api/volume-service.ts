import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { CreateVolumeInput, VolumeView } from "../commands/model.ts";
import { refuse, validateCreateVolume, validateDeleteVolume } from "../commands/validate-volume.ts";
import { type VolumeRef, volumeKey } from "../domain/volume.ts";
import { type ApiDeps, callerOf } from "./api-deps.ts";
import { createChecks, durationMs, refuseAll } from "./check-request.ts";
import { explanationMessage } from "./convert-explanation.ts";
import { createVolumeInput, volumeFilterFrom, volumeMessage } from "./convert-volume.ts";
import { holdUntil } from "./hold-until.ts";
import { nextPageToken, pageFrom, questionOf } from "./page-token.ts";
import { notImplemented, unimplemented } from "./unimplemented.ts";
import { watchVolumes } from "./volume-watch.ts";

type VolumeService = Implementation<typeof VolumeServiceDefinition>;

export const createVolumeService = (deps: ApiDeps): VolumeService =>
  unimplemented(VolumeServiceDefinition, {
    ...createVolumeWrites(deps),
    ...createVolumeReads(deps),
  });

const createVolumeWrites = (deps: ApiDeps): Pick<VolumeService, "createVolume" | "deleteVolume"> => {
  const { commands, recent, wakeups, clock } = deps;

  /** As this process knows it now; undefined when it is gone, or another one has its id. */
  const sameLife = async (ref: VolumeRef, uid: string): Promise<VolumeView | undefined> => {
    const view = await recent(ref);
    return view?.volume.uid === uid ? view : undefined;
  };

  return {
    async createVolume(request, context) {
      const checks = createChecks();
      const input = createVolumeInput(request, checks);
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateCreateVolume(input));
      refuseLater(request.inlineSecrets, input);
      const since = wakeups.version();
      const first = await commands.createVolume(input, callerOf(deps, context, "CreateVolume"));
      const last = await holdUntil<VolumeView | undefined>({
        wakeups,
        clock,
        context,
        waitMs,
        since,
        first,
        keys: [volumeKey(input)],
        // A volume that vanished meanwhile has been deleted by somebody else.
        settled: (view) => view === undefined || view.volume.state !== "CREATING",
        read: () => sameLife(input, first.volume.uid),
      });
      return { volume: volumeMessage(last ?? first) };
    },

    async deleteVolume(request, context) {
      const checks = createChecks();
      const { namespace, id, uid, requestId } = request;
      const input = { namespace, id, uid, requestId };
      const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
      refuseAll(checks, () => validateDeleteVolume(input));
      const since = wakeups.version();
      const first = await commands.deleteVolume(input, callerOf(deps, context, "DeleteVolume"));
      if (first === undefined) return {};
      const last = await holdUntil<VolumeView | undefined>({
        wakeups,
        clock,
        context,
        waitMs,
        since,
        first,
        keys: [volumeKey(input)],
        settled: (view) => view === undefined,
        read: () => sameLife(input, first.volume.uid),
      });
      return last === undefined ? {} : { volume: volumeMessage(last) };
    },
  };
};

/** Fields that the API has and this version does not: said so, before anything is written. */
const refuseLater = (inline: Readonly<Record<string, string>>, input: CreateVolumeInput): void => {
  const method = "/holdfast.v1.VolumeService/CreateVolume";
  if (Object.keys(inline).length > 0) throw notImplemented(`${method}: inline_secrets`);
  if (input.contentSource.kind === "snapshot") throw notImplemented(`${method}: content_source.snapshot`);
};

const createVolumeReads = (
  deps: ApiDeps,
): Pick<VolumeService, "getVolume" | "listVolumes" | "watchVolumes" | "explainVolume"> => {
  const { commands } = deps;
  return {
    getVolume: async ({ namespace, id }) => ({ volume: volumeMessage(await commands.getVolume({ namespace, id })) }),

    async listVolumes(request) {
      const checks = createChecks();
      const filter = volumeFilterFrom(request.filter, checks);
      const question = questionOf("ListVolumes", filter);
      const page = pageFrom(request, question, checks);
      refuse(checks.violations);
      const { items, next } = await commands.listVolumes(filter, page);
      return { volumes: items.map(volumeMessage), nextPageToken: nextPageToken(next, question) };
    },

    watchVolumes: (request, { signal }) => watchVolumes(deps, request, signal),

    explainVolume: async ({ namespace, id }) => explanationMessage(await commands.explainVolume({ namespace, id })),
  };
};
