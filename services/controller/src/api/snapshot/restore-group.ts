/** Groups that are made anew as volumes. The answer is held until all are there, or it is decided what a failure means for the others. */
import {
  GroupRestoreState,
  type RestoreSnapshotGroupResponse,
  type SnapshotServiceDefinition,
} from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { RestoreView, SnapshotCommands } from "../../commands/snapshot/snapshot-types.ts";
import { validateRestoreGroup } from "../../commands/snapshot/validate-snapshot.ts";
import { volumeKey } from "../../domain/volume/volume.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { type Checks, createChecks, durationMs, refuseAll } from "../check-request.ts";
import { holdUntil } from "../hold-until.ts";
import { volumeMessage } from "../volume/convert-volume.ts";
import { madeInput } from "../volume/convert-volume-request.ts";

export interface RestoreApiDeps extends Pick<ApiDeps, "wakeups" | "clock" | "tracing" | "granted"> {
  readonly snapshots: Pick<SnapshotCommands, "restoreGroup" | "findRestore">;
}

const restoreMessage = ({ state, volumes, gone }: RestoreView): RestoreSnapshotGroupResponse => ({
  state: GroupRestoreState[`GROUP_RESTORE_STATE_${state}`],
  volumes: volumes.map(volumeMessage),
  gone: [...gone],
});

/** What is wrong with one of them is told with its place in the list. */
const within = (checks: Checks, i: number): Checks => ({
  ...checks,
  complain: (field, description) => checks.complain(`members[${i}].${field}`, description),
});

export const createRestores = ({
  snapshots,
  wakeups,
  clock,
  tracing,
  granted,
}: RestoreApiDeps): Pick<Implementation<typeof SnapshotServiceDefinition>, "restoreSnapshotGroup"> => ({
  async restoreSnapshotGroup(request, context) {
    const checks = createChecks();
    const { namespace, group, requestId } = request;
    const members = request.members.map((member, i) => ({
      ...madeInput(namespace, member, within(checks, i)),
      source: member.source,
    }));
    const input = { namespace, group, requestId, members };
    const waitMs = durationMs("wait_for", request.waitFor, checks) ?? 0;
    refuseAll(checks, () => validateRestoreGroup(input, granted));
    const since = wakeups.version();
    const first = await snapshots.restoreGroup(input, callerOf({ tracing }, context, "RestoreSnapshotGroup"));
    const last = await holdUntil<RestoreView>({
      wakeups,
      clock,
      context,
      waitMs,
      since,
      first,
      keys: members.map(({ id }) => volumeKey({ namespace, id })),
      settled: ({ state, deciding }) => state !== "CREATING" && !deciding,
      read: () => snapshots.findRestore(input),
    });
    return restoreMessage(last);
  },
});
