import {
  GroupRestoreState,
  RestoreSnapshotGroupRequest,
  RestoreSnapshotGroupResponse,
} from "@holdfast/shared/gen/holdfast/v1/snapshot";
import { GroupRestoreEnd, type Volume, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Command } from "../../frame/command.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { narrowColumns, tableText } from "../../frame/tables.ts";
import { readSpec } from "../../spec/read-spec.ts";
import { blockedFailure, overFailure } from "../stuck-failure.ts";
import { volumeColumns, volumeName, volumeStates } from "../volume/volume-words.ts";
import { noWaitOption } from "../wait-options.ts";

const roundSeconds = 10n;

const line = ({ volumes }: RestoreSnapshotGroupResponse): string =>
  volumes.map((volume) => `${volumeName(volume)} ${volumeStates.of(volume.state)}`).join(", ");

/** What became of the others, for people. */
const ends: Readonly<Partial<Record<GroupRestoreEnd, string>>> = {
  [GroupRestoreEnd.GROUP_RESTORE_END_UNDONE]: "the others are deleted",
  [GroupRestoreEnd.GROUP_RESTORE_END_KEPT]: "the others stay, as there was a claim of one of them",
};

const explain = ({ id, namespace }: Volume): string => `holdfast volume explain ${id} --namespace ${namespace}`;

/** One that failed, is gone or is blocked ends the wait with words. */
const failIfOver = (what: string, { state, volumes, gone }: RestoreSnapshotGroupResponse): void => {
  const failed = volumes.find((volume) => volume.state === VolumeState.VOLUME_STATE_FAILED);
  const end = ends[failed?.restore?.end ?? GroupRestoreEnd.GROUP_RESTORE_END_UNSPECIFIED];
  if (failed !== undefined && end !== undefined)
    throw overFailure(`volume ${volumeName(failed)} of ${what}, so that ${end},`, "FAILED", failed.lastError, [
      explain(failed),
      `holdfast volume delete ${failed.id} --namespace ${failed.namespace}`,
    ]);
  if (failed === undefined && state === GroupRestoreState.GROUP_RESTORE_STATE_FAILED)
    throw new CliFailure({
      exitCode: exitCodes.failed,
      reason: "FAILED",
      message: `volumes of ${what} are gone or being deleted: ${[...gone, ...volumes.filter((v) => v.deleteWanted).map(({ id }) => id)].join(", ")}`,
    });
  const blocked = volumes.find((volume) => volume.blocked !== undefined);
  if (failed === undefined && blocked?.blocked !== undefined)
    throw blockedFailure(`volume ${volumeName(blocked)}`, blocked.blocked, explain(blocked));
};

export const restoreGroup: Command = {
  path: ["snapshot", "restore-group"],
  summary: "make all volumes of a snapshot group anew, from a spec file",
  description:
    "The fields are those of RestoreSnapshotGroupRequest (docs/reference): each volume of the group once, as source, with the id and the capabilities of the new one. All records are stored in one commit, or none. When one fails for good the others are deleted again, unless there was a claim of one of them.",
  args: [{ name: "file", help: "the spec, YAML or JSON; - reads standard input", completes: "file" }],
  options: [noWaitOption, oneOption],
  examples: [
    { line: "holdfast snapshot restore-group shop.yaml", says: "make them and wait until all can be claimed" },
  ],
  async run(context, input) {
    const { namespace } = context.settings;
    const kind = {
      type: "holdfast.v1.RestoreSnapshotGroupRequest",
      codec: RestoreSnapshotGroupRequest,
      hidden: ["request_id", "wait_for"],
    };
    const spec = await readSpec(context, kind, input.arg("file"), (given) =>
      given["namespace"] === undefined || given["namespace"] === "" ? { namespace } : {},
    );
    const { request } = spec;
    const what = `the restore of snapshot group ${request.namespace}/${request.group}`;
    const ask = (waitFor: { readonly seconds: bigint; readonly nanos: number }, signal: AbortSignal) =>
      context.clients.snapshots.restoreSnapshotGroup({ ...request, waitFor }, { signal });
    let answer = await spec.call(() => context.clients.snapshots.restoreSnapshotGroup(request));
    if (input.flag("wait"))
      answer = await context
        .wait({
          what,
          watch: async function* rounds(signal: AbortSignal): AsyncIterable<RestoreSnapshotGroupResponse> {
            while (!signal.aborted) yield await ask({ seconds: roundSeconds, nanos: 0 }, signal);
          },
          line: (now) => `${what}: ${line(now)}`,
          settled: (now) => {
            if (now.state === GroupRestoreState.GROUP_RESTORE_STATE_READY) return { now };
            failIfOver(what, now);
            return undefined;
          },
          look: `holdfast volume list --namespace ${request.namespace}`,
          stop: "",
        })
        .then(({ now }) => now);
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.RestoreSnapshotGroupResponse", RestoreSnapshotGroupResponse, answer),
      names: answer.volumes.map(({ id }) => id),
      people: () => tableText(narrowColumns(volumeColumns(context.io.now(), true)), answer.volumes),
    });
  },
};
