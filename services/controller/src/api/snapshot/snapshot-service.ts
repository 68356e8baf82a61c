import type { SnapshotServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import type { SnapshotCommands } from "../../commands/snapshot/snapshot-types.ts";
import {
  validateCreateGroup,
  validateCreateSnapshot,
  validateDeleteCut,
  validateListExternal,
} from "../../commands/snapshot/validate-snapshot.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { seesNamespace } from "../../domain/access/caller-scope.ts";
import { type CutKind, type CutRecord, type CutState, cutKey } from "../../domain/snapshot/snapshot.ts";
import { listWithin } from "../access/within-scope.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { type Checks, createChecks, durationMs, optionalId, refuseAll } from "../check-request.ts";
import { holdUntil } from "../hold-until.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";
import { secretRefFrom } from "../secret/convert-secret.ts";
import {
  cutFilterFrom,
  externalMessage,
  groupMessage,
  metadataMessage,
  snapshotMessage,
  snapshotSecretsFrom,
} from "./convert-snapshot.ts";
import { createRestores } from "./restore-group.ts";

type SnapshotService = Implementation<typeof SnapshotServiceDefinition>;

export interface SnapshotApiDeps extends Pick<ApiDeps, "wakeups" | "clock" | "tracing" | "granted" | "scopeOf"> {
  readonly snapshots: SnapshotCommands;
}

interface Viewed {
  readonly record: CutRecord;
}

/** What a waiting caller waits for; `true` counts as settled. */
const settledFor = (untilReady: boolean): Readonly<Record<CutState, boolean>> => ({
  CREATING: false,
  CUT: !untilReady,
  READY: true,
  // Nobody waits for a deletion by asking for the thing itself.
  DELETING: true,
  FAILED: true,
});

const longestStreamMs = 24 * 3_600_000;

/** The fields by which a long question says how much of it is asked. */
interface Window {
  readonly namespace: string;
  readonly startingOffset: bigint;
  readonly maxResults: number;
}

export const createSnapshotService = (deps: SnapshotApiDeps): SnapshotService => ({
  ...createWrites(deps),
  ...createRestores(deps),
  ...createReads(deps),
});

type Writes = "createSnapshot" | "createSnapshotGroup" | "deleteSnapshot" | "deleteSnapshotGroup";

const createWrites = (deps: SnapshotApiDeps): Pick<SnapshotService, Writes> => {
  const { snapshots, wakeups, clock } = deps;

  /** How it stands when it has settled, or the time is up; undefined = this life of it is over. */
  const held = <V extends Viewed>(
    context: CallContext,
    waitMs: number,
    since: number,
    first: V,
    settled: (view: V) => boolean,
    find: () => Promise<V | undefined>,
  ): Promise<V | undefined> =>
    holdUntil<V | undefined>({
      wakeups,
      clock,
      context,
      waitMs,
      since,
      first,
      keys: [cutKey(first.record)],
      settled: (view) => view === undefined || settled(view),
      read: async () => {
        const view = await find();
        return view?.record.uid === first.record.uid ? view : undefined;
      },
    });

  const inputOf = (
    request: {
      readonly namespace: string;
      readonly id: string;
      readonly parameters: Record<string, string>;
      readonly labels: Record<string, string>;
      readonly requestId: string;
      readonly secrets: Parameters<typeof snapshotSecretsFrom>[1];
      readonly waitFor: Parameters<typeof durationMs>[1];
    },
    checks: Checks,
  ) => {
    const { namespace, id, parameters, labels, requestId } = request;
    const secretRefs = snapshotSecretsFrom(namespace, request.secrets);
    const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
    return { input: { namespace, id, parameters, labels, requestId, secretRefs }, waitMs };
  };

  /** undefined = it is gone. */
  const remove = async <V extends Viewed>(
    kind: CutKind,
    request: {
      readonly namespace: string;
      readonly id: string;
      readonly uid: string;
      readonly requestId: string;
      readonly forget: boolean;
      readonly waitFor: Parameters<typeof durationMs>[1];
    },
    context: CallContext,
    rpc: string,
    find: () => Promise<V | undefined>,
  ): Promise<V | undefined> => {
    const checks = createChecks();
    const { namespace, id, uid, requestId, forget } = request;
    const input = { kind, namespace, id, uid, requestId, forget };
    const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
    refuseAll(checks, () => validateDeleteCut(input));
    const since = wakeups.version();
    if (await snapshots.deleteCut(input, callerOf(deps, context, rpc))) return undefined;
    const first = await find();
    return first && held(context, waitMs, since, first, () => false, find);
  };

  return {
    async createSnapshot(request, context) {
      const checks = createChecks();
      const { input: common, waitMs } = inputOf(request, checks);
      const topology = request.topology.map(({ segments }) => segments);
      const input = { ...common, volume: request.volume, topology };
      refuseAll(checks, () => validateCreateSnapshot(input, deps.granted));
      const since = wakeups.version();
      const first = await snapshots.createSnapshot(input, callerOf(deps, context, "CreateSnapshot"));
      const settled = settledFor(request.waitUntilReady);
      const find = () => snapshots.findSnapshot(input);
      const last = await held(context, waitMs, since, first, ({ record }) => settled[record.state], find);
      return { snapshot: snapshotMessage(last ?? first) };
    },

    async createSnapshotGroup(request, context) {
      const checks = createChecks();
      const { input: common, waitMs } = inputOf(request, checks);
      const input = { ...common, members: request.members };
      refuseAll(checks, () => validateCreateGroup(input, deps.granted));
      const since = wakeups.version();
      const first = await snapshots.createGroup(input, callerOf(deps, context, "CreateSnapshotGroup"));
      const settled = settledFor(request.waitUntilReady);
      const find = () => snapshots.findGroup(input);
      const last = (await held(context, waitMs, since, first, ({ record }) => settled[record.state], find)) ?? first;
      return { group: groupMessage(last), snapshots: last.snapshots.map(snapshotMessage) };
    },

    async deleteSnapshot(request, context) {
      const find = () => snapshots.findSnapshot(request);
      const left = await remove("snapshot", request, context, "DeleteSnapshot", find);
      return left === undefined ? {} : { snapshot: snapshotMessage(left) };
    },

    async deleteSnapshotGroup(request, context) {
      const find = () => snapshots.findGroup(request);
      const left = await remove("group", request, context, "DeleteSnapshotGroup", find);
      return left === undefined ? {} : { group: groupMessage(left) };
    },
  };
};

const createReads = ({
  snapshots,
  granted,
  scopeOf,
}: SnapshotApiDeps): Omit<SnapshotService, Writes | "restoreSnapshotGroup"> => {
  const blocks = async function* (request: Window, base: string, target: string, context: CallContext) {
    const { namespace, startingOffset, maxResults } = request;
    const totalMs = Math.min(context.remainingMs(), longestStreamMs);
    const input = { namespace, base, target, startingOffset, maxResults, totalMs };
    for await (const message of snapshots.blocks(input, context.signal)) yield metadataMessage(message);
  };

  return {
    getSnapshot: async ({ namespace, id }) => ({
      snapshot: snapshotMessage(await snapshots.getSnapshot({ namespace, id })),
    }),

    async listSnapshots(request, { identity, signal }) {
      const checks = createChecks();
      const filter = cutFilterFrom(request.filter, checks);
      const scope = scopeOf(identity);
      const question = questionOf("ListSnapshots", filter, scope);
      const page = { ...pageFrom(request, question, checks), signal };
      refuse(checks.violations);
      const { items, next } = await listWithin(scope, filter, page, snapshots.listSnapshots);
      return { snapshots: items.map(snapshotMessage), nextPageToken: nextPageToken(next, question) };
    },

    async listExternalSnapshots(request, { identity, signal }) {
      const checks = createChecks();
      const { plugin, externalVolumeId } = request;
      const namespace = optionalId("namespace", request.namespace, checks);
      const input = { plugin, externalVolumeId, namespace, secretRef: secretRefFrom(namespace, request.secrets) };
      const scope = scopeOf(identity);
      const question = questionOf("ListExternalSnapshots", [plugin, externalVolumeId], scope);
      const page = pageFrom(request, question, checks);
      refuseAll(checks, () => validateListExternal(input, granted));
      const { items, next } = await snapshots.listExternal(input, page, signal);
      const seen = items.filter(({ known }) => known === undefined || seesNamespace(scope, known.namespace));
      return { snapshots: seen.map(externalMessage), nextPageToken: nextPageToken(next, question) };
    },

    async getSnapshotGroup({ namespace, id }) {
      const view = await snapshots.getGroup({ namespace, id });
      return { group: groupMessage(view), snapshots: view.snapshots.map(snapshotMessage) };
    },

    async listSnapshotGroups(request, { identity, signal }) {
      const checks = createChecks();
      const filter = cutFilterFrom(request.filter, checks);
      const scope = scopeOf(identity);
      const question = questionOf("ListSnapshotGroups", filter, scope);
      const page = { ...pageFrom(request, question, checks), signal };
      refuse(checks.violations);
      const { items, next } = await listWithin(scope, filter, page, snapshots.listGroups);
      return { groups: items.map(groupMessage), nextPageToken: nextPageToken(next, question) };
    },

    getMetadataAllocated: (request, context) => blocks(request, "", request.snapshot, context),

    getMetadataDelta: (request, context) => blocks(request, request.baseSnapshot, request.targetSnapshot, context),
  };
};
