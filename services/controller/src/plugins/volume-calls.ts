/** CreateVolume and DeleteVolume. */
import type { Logger } from "@holdfast/shared/log/logger";
import { volumeCommand } from "../domain/operator-command.ts";
import type { Failed, Outcome } from "../domain/outcome.ts";
import type { ContentSource, VolumeRecord, VolumeRef } from "../domain/volume/volume.ts";
import type { CreatedVolume } from "../domain/volume/volume-change.ts";
import type { ControllerPlugins } from "../ports.ts";
import { createdFrom, createRequest, leastBytes, placeMistake, sizeMistake } from "./convert.ts";
import { failedFromCall, outcomeFromCall } from "./outcome-from-call.ts";
import { done, nothing, type PluginCalls, refusedHere, senseless, subjectOf, unsayable } from "./plugin-calls.ts";

export interface VolumeCallsOptions {
  readonly calls: PluginCalls;
  readonly log: Logger;
  /** The volume whose record stands for the storage, if any does. */
  readonly ownerOf: (storage: {
    readonly plugin: string;
    readonly externalId: string;
  }) => Promise<VolumeRef | undefined>;
}

export const createVolumeCalls = (
  options: VolumeCallsOptions,
): Pick<ControllerPlugins, "createVolume" | "deleteVolume"> => {
  const { calls, log, ownerOf } = options;

  /** One that is too small is named all the same: its delete is owed as any other, under an intent and at a gate of its own. */
  const unfit = (volume: VolumeRecord, made: CreatedVolume, mistake: string): Outcome<CreatedVolume> => {
    log.warn("a volume that is not what was asked for is deleted again", {
      volume: `${volume.namespace}/${volume.id}`,
      plugin: volume.plugin,
      external_id: made.externalId,
      mistake,
    });
    return done({ ...made, unfit: `plugin ${volume.plugin} ${mistake}; it is deleted again` });
  };

  return {
    createVolume: (volume, call) =>
      calls.change(
        volume,
        { ref: volume.secretRefs.create, volume: volume.id, method: "CreateVolume" },
        call,
        async (instance, values) => {
          const source = sourceIn(volume);
          if (source === undefined)
            return refusedHere(`nothing says what ${volume.namespace}/${volume.id} is to be made from at the plugin`);
          const { version, controller } = instance.facts;
          const request = createRequest(volume, source, controller.SINGLE_NODE_MULTI_WRITER, values);
          if ("because" in request) return unsayable(volume.plugin, request);
          // A repeat says exactly what was said first, also of what nobody wants any more and of a source that is gone: a plugin would take
          // anything else for a volume of its own, and lose what it had begun.
          const answer = await instance.call("CreateVolume", request, {
            signal: call.signal,
            subject: subjectOf(volume, call),
          });
          if (answer.outcome !== "done") return waitingForSecrets(failedFromCall(answer, call.attempt));
          const made = createdFrom(answer.value, version, instance.own);
          if (made === undefined) return senseless("CreateVolume was answered without a volume");
          // What nobody wants any more is taken as it is, and deleted under an intent of its own.
          if (volume.goal === "absent") return done(made);
          const mistake = sizeMistake(volume, made.capacity) ?? placeMistake(volume, made.accessible);
          if (mistake === undefined) return done(made);
          // What another record stands for is not deleted for that; whoever stores the answer finds that out.
          const owner = await ownerOf({ plugin: volume.plugin, externalId: made.externalId });
          if (owner !== undefined) return done(made);
          return isTooSmall(volume, made) ? unfit(volume, made, mistake) : kept(volume, made.externalId, mistake);
        },
      ),

    deleteVolume: (volume, call) =>
      calls.change(
        volume,
        { ref: volume.secretRefs.delete ?? volume.secretRefs.create, volume: volume.id, method: "DeleteVolume" },
        call,
        async (instance, values) => {
          const request = { volumeId: volume.externalId, secrets: { ...values } };
          const options = { signal: call.signal, subject: subjectOf(volume, call) };
          return outcomeFromCall<unknown, void>(
            await instance.call("DeleteVolume", request, options),
            call.attempt,
            nothing,
          );
        },
      ),
  };
};

/** No volume ever shrinks, so that one which is too small was made so. */
const isTooSmall = (volume: VolumeRecord, { capacity }: CreatedVolume): boolean =>
  capacity > 0 && capacity < leastBytes(volume);

/**
 * A volume that is bigger than asked for, or elsewhere, may have been made as asked, used and grown or moved since, and the record may
 * be from before that: out of a backup, or of a store that went back. So it is never deleted for that without somebody's word.
 */
const kept = (volume: VolumeRecord, externalId: string, mistake: string): Outcome<CreatedVolume> => ({
  kind: "unknown",
  failure: {
    reason: "PLUGIN_REFUSED",
    message: `plugin ${volume.plugin} ${mistake}; storage ${externalId} is kept, as it may have been in use and grown since; if nobody needs it: ${volumeCommand("volume delete", volume)}`,
    advice: "block",
    method: "CreateVolume",
    leaves: true,
    call: "ended",
  },
});

/** Secrets may be corrected: a volume that is wanted waits for better ones instead of failing for good. */
const waitingForSecrets = (failed: Failed<CreatedVolume>): Outcome<CreatedVolume> =>
  failed.failure.reason === "CREDENTIALS_REFUSED"
    ? { ...failed, failure: { ...failed.failure, advice: "block" } }
    : failed;

/** The content source in the plugin's own words, as they were when the volume was asked for. */
const sourceIn = ({ contentSource, source }: VolumeRecord): ContentSource | undefined => {
  if (contentSource.kind === "none") return contentSource;
  return source === undefined ? undefined : { kind: contentSource.kind, id: source.externalId };
};
