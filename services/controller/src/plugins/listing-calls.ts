/** ListVolumes, ControllerGetVolume and ListSnapshots: questions, which change nothing at the backend. */

import type { ResponseOf } from "@holdfast/csi/messages";
import { wholeNumber } from "@holdfast/model/whole-number";
import { scrub } from "@holdfast/shared/grpc/redact";
import type { ListedSnapshot, ListedVolume, ListingSkills } from "../domain/listing.ts";
import type { Outcome } from "../domain/outcome.ts";
import type { BackendListings } from "../ports.ts";
import { accessibleFrom } from "./convert.ts";
import { failedFromCall, outcomeFromCall } from "./outcome-from-call.ts";
import { askEach, pageOfAll } from "./page-of-all.ts";
import { done, notSent, type PluginCalls, type PluginInstance } from "./plugin-calls.ts";

type VolumeEntry = ResponseOf<"ListVolumes">["entries"][number];
type SnapshotEntry = ResponseOf<"ListSnapshots">["entries"][number];

/** Only a plugin that announces the capability fills the field; from any other an empty list says nothing (C66). */
const publishedNodes = ({ facts }: Pick<PluginInstance, "facts">, { status }: Pick<VolumeEntry, "status">) =>
  facts.controller.LIST_VOLUMES_PUBLISHED_NODES === "yes" && status !== undefined
    ? { publishedNodes: [...new Set(status.publishedNodeIds.filter((id) => id !== ""))] }
    : {};

const conditionOf = (instance: Pick<PluginInstance, "facts">, { status }: Pick<VolumeEntry, "status">) => {
  const condition = status?.volumeCondition;
  return instance.facts.controller.VOLUME_CONDITION !== "yes" || condition === undefined
    ? {}
    : { condition: { abnormal: condition.abnormal, message: scrub(condition.message, []) } };
};

const listedVolume = (
  instance: Pick<PluginInstance, "facts">,
  { volume, status }: Pick<VolumeEntry, "volume" | "status">,
): readonly ListedVolume[] => {
  if (volume === undefined) return [];
  const { contentSource: source } = volume;
  return [
    {
      externalId: volume.volumeId,
      capacity: wholeNumber(volume.capacityBytes),
      context: { ...volume.volumeContext },
      accessible: accessibleFrom(volume.accessibleTopology),
      sourceSnapshot: source?.snapshot?.snapshotId ?? "",
      sourceVolume: source?.volume?.volumeId ?? "",
      ...publishedNodes(instance, { status }),
      ...conditionOf(instance, { status }),
    },
  ];
};

const listedSnapshot = ({ snapshot }: SnapshotEntry): readonly ListedSnapshot[] =>
  snapshot === undefined
    ? []
    : [
        {
          externalId: snapshot.snapshotId,
          sourceVolume: snapshot.sourceVolumeId,
          size: wholeNumber(snapshot.sizeBytes),
          createdAt: snapshot.creationTime?.getTime() ?? 0,
          ready: snapshot.readyToUse,
          group: snapshot.groupSnapshotId,
        },
      ];

export const createListingCalls = (calls: PluginCalls, trouble: (plugin: string) => string): BackendListings => ({
  can(plugin): ListingSkills {
    const controller = calls.instance({ plugin })?.facts.controller;
    return {
      ready: controller !== undefined,
      reason: controller === undefined ? trouble(plugin) : "",
      volumes: controller?.LIST_VOLUMES ?? "unknown",
      publishedNodes: controller?.LIST_VOLUMES_PUBLISHED_NODES ?? "unknown",
      snapshots: controller?.LIST_SNAPSHOTS ?? "unknown",
      single: controller?.GET_VOLUME ?? "unknown",
    };
  },

  tells: (volume) => calls.instance(volume) !== undefined,

  volumes: (plugin, { token, max }, signal) =>
    pageOfAll(calls, { plugin, token, method: "ListVolumes" }, async (instance, startingToken) =>
      outcomeFromCall(
        await instance.call("ListVolumes", { maxEntries: max, startingToken }, { signal }),
        1,
        ({ entries, nextToken }) =>
          done({ entries: entries.flatMap((entry) => listedVolume(instance, entry)), next: nextToken }),
      ),
    ),

  volume: (plugin, externalId, signal) =>
    askEach<ListedVolume>(calls, plugin, async (instance) => {
      const answer = await instance.call("ControllerGetVolume", { volumeId: externalId }, { signal });
      if (answer.outcome !== "done")
        return answer.failure.code === "NOT_FOUND" && answer.outcome === "refused"
          ? done(undefined)
          : failedFromCall(answer, 1);
      const [found] = listedVolume(instance, { volume: answer.value.volume, status: answer.value.status });
      // An answer about another volume is none about this one.
      return found?.externalId === externalId ? done(found) : notSent("INTERNAL", otherVolume(plugin, externalId));
    }),

  snapshots: (plugin, { token, max }, secretRef, signal) =>
    pageOfAll(calls, { plugin, token, secretRef, method: "ListSnapshots" }, async (instance, startingToken, values) => {
      const request = { maxEntries: max, startingToken, secrets: { ...values } };
      return outcomeFromCall(
        await instance.call("ListSnapshots", request, { signal }),
        1,
        ({ entries, nextToken }): Outcome<{ entries: ListedSnapshot[]; next: string }> =>
          done({ entries: entries.flatMap(listedSnapshot), next: nextToken }),
      );
    }),
});

const otherVolume = (plugin: string, externalId: string): string =>
  `plugin ${plugin} answered ControllerGetVolume of ${externalId} with another volume`;
