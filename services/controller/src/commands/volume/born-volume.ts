import { zeroEpoch } from "@holdfast/model/epoch";
import type { Moment } from "../../domain/moment.ts";
import { noAttempts } from "../../domain/outcome.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { Caller, CreateVolumeInput } from "../model.ts";

type Asked = Pick<
  CreateVolumeInput,
  | "namespace"
  | "id"
  | "plugin"
  | "parameters"
  | "mutableParameters"
  | "capabilities"
  | "capacity"
  | "secretRefs"
  | "labels"
  | "policy"
  | "requestId"
>;

type Own = "name" | "externalId" | "topology" | "contentSource" | "context";

/** What every new record begins with, however its storage comes about. */
export const bornVolume = (input: Asked, caller: Caller, uid: string, { now }: Moment): Omit<VolumeRecord, Own> => ({
  namespace: input.namespace,
  id: input.id,
  uid,
  plugin: input.plugin,
  pluginVersion: "",
  parameters: input.parameters,
  mutableParameters: input.mutableParameters,
  capabilities: input.capabilities,
  capacity: { required: input.capacity.required, limit: input.capacity.limit, actual: 0 },
  secretRefs: input.secretRefs,
  labels: input.labels,
  policy: input.policy,
  state: "CREATING",
  goal: "present",
  epoch: zeroEpoch,
  claims: {},
  attachments: {},
  bars: [],
  attempts: noAttempts,
  requestId: input.requestId,
  ...(caller.traceparent === undefined ? {} : { trace: { parent: caller.traceparent, at: now } }),
  createdAt: now,
  updatedAt: now,
  stateSince: now,
  changedBy: { who: caller.who, why: caller.why },
});
