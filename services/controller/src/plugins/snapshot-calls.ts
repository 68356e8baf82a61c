/** CreateSnapshot, DeleteSnapshot and their group forms, ListSnapshots, and the streams of changed blocks. */

import type { CallSubject } from "@holdfast/csi/call-spans";
import type { PluginFacts } from "@holdfast/csi/capabilities";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Outcome } from "../domain/outcome.ts";
import { type CutRecord, type GroupRecord, type SnapshotRecord, secretFor } from "../domain/snapshot/snapshot.ts";
import type { CutAnswer } from "../domain/snapshot/snapshot-answer.ts";
import type { SnapshotFacts } from "../domain/snapshot/snapshot-types.ts";
import { volumeKey } from "../domain/volume/volume.ts";
import type { CallContext, SnapshotPlugins } from "../ports.ts";
import type { Secrets } from "../secrets/secrets.ts";
import { blocksFrom, snapshotFrom } from "./convert-snapshot.ts";
import { outcomeFromCall } from "./outcome-from-call.ts";
import { pageOfAll } from "./page-of-all.ts";
import { done, nothing, type PluginCalls, type PluginInstance, type SecretNeed, senseless } from "./plugin-calls.ts";

export interface SnapshotCallsOptions {
  readonly calls: PluginCalls;
  readonly secrets: Secrets;
  /** As it was last seen, and whether it can be called. */
  readonly standing: (plugin: string) => {
    readonly ready: boolean;
    readonly reason: string;
    readonly facts: PluginFacts | undefined;
  };
}

type Values = Readonly<Record<string, string>>;

const subjectOf = (record: CutRecord, { attempt }: Pick<CallContext, "attempt">): CallSubject => ({
  namespace: record.namespace,
  attempt,
  ...(record.kind === "snapshot" ? { volume: record.volume } : {}),
});

const cutOne = async (
  instance: PluginInstance,
  record: SnapshotRecord,
  values: Values,
  call: CallContext,
): Promise<Outcome<CutAnswer>> => {
  const { name, externalVolumeId: sourceVolumeId, parameters } = record;
  const requisite = (record.askedPlaces ?? []).map((segments) => ({ segments: { ...segments } }));
  const request = {
    name,
    sourceVolumeId,
    parameters: { ...parameters },
    secrets: { ...values },
    ...(requisite.length === 0 ? {} : { accessibilityRequirements: { requisite } }),
  };
  const answer = await instance.call("CreateSnapshot", request, {
    signal: call.signal,
    subject: subjectOf(record, call),
  });
  return outcomeFromCall(answer, call.attempt, ({ snapshot }): Outcome<CutAnswer> => {
    if (snapshot === undefined) return senseless("CreateSnapshot was answered without a snapshot");
    const made = snapshotFrom(instance, snapshot);
    const { externalId, cutAt, ready } = made;
    return done({ externalId, cutAt, ready, pluginVersion: instance.facts.version, snapshots: [made] });
  });
};

const cutGroup = async (
  instance: PluginInstance,
  record: GroupRecord,
  values: Values,
  call: CallContext,
): Promise<Outcome<CutAnswer>> => {
  const sourceVolumeIds = record.members.map(({ externalVolumeId }) => externalVolumeId);
  const request = {
    name: record.name,
    sourceVolumeIds,
    parameters: { ...record.parameters },
    secrets: { ...values },
  };
  const answer = await instance.call("CreateVolumeGroupSnapshot", request, {
    signal: call.signal,
    subject: subjectOf(record, call),
  });
  return outcomeFromCall(answer, call.attempt, ({ groupSnapshot: group }): Outcome<CutAnswer> => {
    if (group === undefined) return senseless("CreateVolumeGroupSnapshot was answered without a group");
    return done({
      externalId: group.groupSnapshotId,
      cutAt: group.creationTime?.getTime() ?? 0,
      ready: group.readyToUse,
      pluginVersion: instance.facts.version,
      snapshots: group.snapshots.map((one) => snapshotFrom(instance, one)),
    });
  });
};

export const createSnapshotCalls = ({ calls, secrets, standing }: SnapshotCallsOptions): SnapshotPlugins => ({
  snapshotFacts(plugin): SnapshotFacts {
    const { ready, reason, facts } = standing(plugin);
    return {
      ready,
      reason,
      snapshots: facts?.controller.CREATE_DELETE_SNAPSHOT ?? "unknown",
      lists: facts?.controller.LIST_SNAPSHOTS ?? "unknown",
      clones: facts?.controller.CLONE_VOLUME ?? "unknown",
      groups: facts?.group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT ?? "unknown",
      metadata: facts?.plugin.SNAPSHOT_METADATA_SERVICE ?? "unknown",
      places: facts?.plugin.SNAPSHOT_ACCESSIBILITY_CONSTRAINTS ?? "unknown",
      volumePlaces: facts?.plugin.VOLUME_ACCESSIBILITY_CONSTRAINTS ?? "unknown",
    };
  },

  cut: (record, call) =>
    calls.change(record, needOf(record, "create"), call, async (instance, values) => {
      return record.kind === "group"
        ? await cutGroup(instance, record, values, call)
        : await cutOne(instance, record, values, call);
    }),

  deleteCut: (record, call) =>
    calls.change(record, needOf(record, "delete"), call, async (instance, values) => {
      const options = { signal: call.signal, subject: subjectOf(record, call) };
      const answer =
        record.kind === "group"
          ? await instance.call(
              "DeleteVolumeGroupSnapshot",
              {
                groupSnapshotId: record.externalId,
                snapshotIds: [...record.answeredIds],
                secrets: { ...values },
              },
              options,
            )
          : await instance.call("DeleteSnapshot", { snapshotId: record.externalId, secrets: { ...values } }, options);
      return outcomeFromCall<unknown, void>(answer, call.attempt, nothing);
    }),

  listSnapshots: (
    plugin,
    { externalVolumeId: sourceVolumeId, namespace, secretRef, size: maxEntries, token },
    signal,
  ) =>
    pageOfAll(
      calls,
      { plugin, namespace, token, secretRef, method: "ListSnapshots" },
      async (instance, startingToken, values) => {
        const request = { sourceVolumeId, maxEntries, startingToken, secrets: { ...values } };
        const answer = await instance.call("ListSnapshots", request, { signal });
        return outcomeFromCall(answer, 1, ({ entries, nextToken: next }) =>
          done({
            snapshots: entries.flatMap(({ snapshot }) => (snapshot ? [snapshotFrom(instance, snapshot)] : [])),
            next,
          }),
        );
      },
    ),

  async *blocks({ base, target, startingOffset, maxResults, totalMs }, signal) {
    const instance = await calls.find(target, signal);
    if (instance === undefined) throw away(target, standing(target.plugin).reason);
    const method = base === undefined ? "GetMetadataAllocated" : "GetMetadataDelta";
    const use = { volume: target.id, method };
    const values = { ...(await secrets.resolve(secretFor(target.secretRefs, "metadata"), target.namespace, use)) };
    const options = { signal, totalMs, subject: subjectOf(target, { attempt: 1 }) };
    const window = { startingOffset, maxResults, secrets: values };
    const messages =
      base === undefined
        ? instance.stream("GetMetadataAllocated", { snapshotId: target.externalId, ...window }, options)
        : instance.stream(
            "GetMetadataDelta",
            { baseSnapshotId: base.externalId, targetSnapshotId: target.externalId, ...window },
            options,
          );
    for await (const message of messages) yield blocksFrom(message);
  },
});

const cutMethods = {
  create: { snapshot: "CreateSnapshot", group: "CreateVolumeGroupSnapshot" },
  delete: { snapshot: "DeleteSnapshot", group: "DeleteVolumeGroupSnapshot" },
} as const;

const needOf = (record: CutRecord, purpose: "create" | "delete"): SecretNeed => ({
  ref: secretFor(record.secretRefs, purpose),
  volume: record.id,
  method: cutMethods[purpose][record.kind],
});

const away = (snapshot: SnapshotRecord, why: string): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STREAM_BROKEN",
    message: `plugin ${snapshot.plugin} of snapshot ${volumeKey(snapshot)} cannot be asked now: ${why}; ask again from the end of the last block`,
    metadata: { plugin: snapshot.plugin, code: "UNAVAILABLE" },
  });
