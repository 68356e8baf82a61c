/** Snapshots and groups: messages of holdfast.v1 ↔ the commands' words. */
import {
  BlockMetadataType,
  type ExternalSnapshot as WireExternal,
  type SnapshotFilter as WireFilter,
  type SnapshotGroup as WireGroup,
  type GetMetadataAllocatedResponse as WireMetadata,
  type SnapshotSecrets as WireSecrets,
  type Snapshot as WireSnapshot,
  SnapshotState as WireState,
} from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { CutFilter, ExternalSnapshot, GroupView, SnapshotView } from "../../commands/snapshot/snapshot-types.ts";
import {
  type CutRecord,
  type CutState,
  cutStates,
  type SnapshotSecretRefs,
  snapshotSecretFamilies,
} from "../../domain/snapshot/snapshot.ts";
import { cutBlocks } from "../../domain/snapshot/snapshot-bar.ts";
import type { BlockMetadata } from "../../domain/snapshot/snapshot-types.ts";
import type { Segments } from "../../domain/volume/volume.ts";
import { type Checks, optionalId } from "../check-request.ts";
import { blockedMessage, callMessage, dateOf, errorOf } from "../convert-message.ts";
import { secretRefFrom, secretRefMessage } from "../secret/convert-secret.ts";

const stateMessage = (state: CutState): WireState => WireState[`SNAPSHOT_STATE_${state}`];

const secretsMessage = (refs: SnapshotSecretRefs): WireSecrets => ({
  create: secretRefMessage(refs.create),
  delete: secretRefMessage(refs.delete),
  list: secretRefMessage(refs.list),
  metadata: secretRefMessage(refs.metadata),
});

/** undefined = none given: the volume's are taken. */
export const snapshotSecretsFrom = (
  namespace: string,
  secrets: WireSecrets | undefined,
): SnapshotSecretRefs | undefined =>
  secrets === undefined
    ? undefined
    : Object.fromEntries(
        snapshotSecretFamilies.flatMap((family) => {
          const ref = secretRefFrom(namespace, secrets[family]);
          return ref === undefined ? [] : [[family, ref]];
        }),
      );

const shared = (record: CutRecord, rev: number) => ({
  namespace: record.namespace,
  id: record.id,
  uid: record.uid,
  externalId: record.externalId,
  name: record.name,
  plugin: record.plugin,
  parameters: { ...record.parameters },
  secrets: secretsMessage(record.secretRefs),
  labels: { ...record.labels },
  cutAt: dateOf(record.cutAt),
  state: stateMessage(record.state),
  blocked: blockedMessage(cutBlocks(record)[0]),
  call: callMessage(record.intent?.call, { plugin: record.plugin, node: "", last: record.attempts.lastError }),
  lastError: errorOf(record.attempts, record.failure, record.updatedAt, { plugin: record.plugin }),
  attempts: record.attempts.count,
  nextTry: dateOf(record.attempts.nextTry),
  revision: BigInt(rev),
  createdAt: dateOf(record.createdAt),
  stateSince: dateOf(record.stateSince),
  lastChange: { ...record.changedBy, at: dateOf(record.updatedAt) },
});

const placesMessage = (places: readonly Segments[]) => places.map((segments) => ({ segments: { ...segments } }));

export const snapshotMessage = ({ record, rev }: SnapshotView): WireSnapshot => ({
  ...shared(record, rev),
  volume: record.volume,
  externalVolumeId: record.externalVolumeId,
  group: record.group,
  sizeBytes: BigInt(record.sizeBytes),
  usableFrom: placesMessage(record.usableFrom ?? []),
});

export const groupMessage = ({ record, rev }: GroupView): WireGroup => ({
  ...shared(record, rev),
  snapshots: record.members.map(({ snapshot }) => snapshot),
  volumes: record.members.map(({ volume }) => volume),
});

export const externalMessage = (one: ExternalSnapshot): WireExternal => ({
  externalId: one.externalId,
  externalVolumeId: one.externalVolumeId,
  externalGroupId: one.externalGroupId,
  sizeBytes: BigInt(one.sizeBytes),
  cutAt: dateOf(one.cutAt),
  ready: one.ready,
  knownNamespace: one.known?.namespace ?? "",
  knownId: one.known?.id ?? "",
  usableFrom: placesMessage(one.usableFrom ?? []),
});

export const metadataMessage = ({ fixedLength, capacity, blocks }: BlockMetadata): WireMetadata => ({
  type:
    fixedLength === undefined
      ? BlockMetadataType.BLOCK_METADATA_TYPE_UNSPECIFIED
      : fixedLength
        ? BlockMetadataType.BLOCK_METADATA_TYPE_FIXED_LENGTH
        : BlockMetadataType.BLOCK_METADATA_TYPE_VARIABLE_LENGTH,
  volumeCapacityBytes: capacity,
  blocks: blocks.map(({ offset, size }) => ({ byteOffset: offset, sizeBytes: size })),
});

export const cutFilterFrom = (filter: WireFilter | undefined, checks: Checks): CutFilter => ({
  namespace: optionalId("filter.namespace", filter?.namespace, checks),
  volume: optionalId("filter.volume", filter?.volume, checks),
  plugin: filter?.plugin ?? "",
  group: optionalId("filter.group", filter?.group, checks),
  states: (filter?.states ?? []).flatMap((wire, i) => {
    const state = cutStates.find((one) => stateMessage(one) === wire);
    if (state === undefined) checks.complain(`filter.states[${i}]`, "is no state of a snapshot");
    return state ?? [];
  }),
  blocked: filter?.blocked ?? false,
  labels: filter?.labels ?? {},
});
