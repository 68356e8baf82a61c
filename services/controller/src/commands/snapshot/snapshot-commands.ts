import type { CommandDeps } from "../command-deps.ts";
import { createGroupCommand, createSnapshotCommand } from "./create-snapshot.ts";
import { deleteCutCommand } from "./delete-snapshot.ts";
import { listExternalQuery } from "./external-snapshots.ts";
import { findRestoreQuery, restoreGroupCommand } from "./restore-group.ts";
import { blocksQuery } from "./snapshot-blocks.ts";
import { createSnapshotQueries } from "./snapshot-queries.ts";
import type { SnapshotCommands } from "./snapshot-types.ts";

/** Everything that callers can ask for about snapshots. */
export const createSnapshotCommands = (deps: CommandDeps): SnapshotCommands => ({
  createSnapshot: createSnapshotCommand(deps),
  createGroup: createGroupCommand(deps),
  restoreGroup: restoreGroupCommand(deps),
  findRestore: findRestoreQuery(deps),
  deleteCut: deleteCutCommand(deps),
  ...createSnapshotQueries(deps),
  listExternal: listExternalQuery(deps),
  blocks: blocksQuery(deps),
});
