import type { Failure } from "../../domain/outcome.ts";
import type { MadeSnapshot } from "../../domain/snapshot/snapshot-answer.ts";
import type { VolumeRef } from "../../domain/volume/volume.ts";
import { type CutIndex, externalEntry } from "../../records/snapshot-codec.ts";
import type { CommandDeps } from "../command-deps.ts";
import { pluginNotFound } from "../errors.ts";
import { clampSize } from "../volume/volume-queries.ts";
import { pageTokenExpired, pluginCannotCut, pluginNotReady } from "./snapshot-errors.ts";
import type { SnapshotCommands } from "./snapshot-types.ts";
import { validateListExternal } from "./validate-snapshot.ts";

const failed = (plugin: string, { message, code }: Failure): Error => {
  // "ABORTED: starting_token is not valid; the caller SHOULD start the listing again with an empty one."
  if (code === "ABORTED") return pageTokenExpired(plugin, message);
  return code === "UNIMPLEMENTED"
    ? pluginCannotCut(plugin, "plugin", "list snapshots")
    : pluginNotReady(plugin, message);
};

/** A backend lists its rows in no promised order and may list one twice. */
const distinct = (snapshots: readonly MadeSnapshot[]): readonly MadeSnapshot[] => [
  ...new Map(snapshots.map((one) => [one.externalId, one])).values(),
];

/** What the backend itself has, page by page as it comes; nothing is concluded from what a page does not have. */
export const listExternalQuery =
  ({ plugins, cuts, secrets }: Pick<CommandDeps, "plugins" | "cuts" | "secrets">): SnapshotCommands["listExternal"] =>
  async (input, { size, after }, signal) => {
    validateListExternal(input, secrets.granted);
    const { plugin, externalVolumeId, namespace, secretRef } = input;
    if (!plugins.names().includes(plugin)) throw pluginNotFound(plugin);
    const facts = plugins.snapshotFacts(plugin);
    if (facts.lists === "no") throw pluginCannotCut(plugin, "plugin", "list snapshots");
    if (!facts.ready) throw pluginNotReady(plugin, facts.reason);
    const outcome = await plugins.listSnapshots(
      plugin,
      { externalVolumeId, namespace, secretRef, size: clampSize(size), token: after ?? "" },
      signal,
    );
    if (outcome.kind !== "done") throw failed(plugin, outcome.failure);
    const { snapshots, next } = outcome.value;
    const known = async (externalId: string): Promise<VolumeRef | undefined> => {
      const { index, value } = externalEntry(plugin, externalId);
      const [found] = (await cuts.list(index as CutIndex, value, { limit: 1, whole: true })).cuts;
      return found && { namespace: found.record.namespace, id: found.record.id };
    };
    const items = await Promise.all(
      distinct(snapshots).map(async (one) => ({ ...one, known: await known(one.externalId) })),
    );
    return { items, next: next === "" ? undefined : next };
  };
