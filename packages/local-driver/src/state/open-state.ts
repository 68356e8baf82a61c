import path from "node:path";
import { type Clock, systemClock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import { DriverError } from "../domain/driver-error.ts";
import type { DriverRecord } from "../domain/records.ts";
import { errnoOf, hostFailure } from "../host/host-failure.ts";
import type { RunTool } from "../host/run-tool.ts";
import type { BrokenRecord, Mounts, State } from "../ports.ts";
import { createClearing } from "./clearing.ts";
import { type Layout, layoutOf, prepareLayout } from "./layout.ts";
import { loadRecords } from "./load-records.ts";
import { createNodeFiles } from "./node-files.ts";
import { createRecordIndex } from "./record-index.ts";
import type { RecordOf } from "./record-readers.ts";
import { createRecordsOnDisk, type RecordsOnDisk } from "./records-on-disk.ts";
import { createRemoveTree, type RemoveTree } from "./remove-tree.ts";
import type { StateDir } from "./state-dir.ts";
import type { StateFiles } from "./state-files.ts";

export interface OpenStateOptions {
  /** Held until after `close`. */
  readonly stateDir: Pick<StateDir, "path">;
  /** For rm. */
  readonly run: RunTool;
  readonly mounts: Pick<Mounts, "table">;
  readonly log: Logger;
  /** Gives up a start that takes long because there is a large tree to delete. */
  readonly signal: AbortSignal;
  readonly files?: StateFiles;
  readonly removeTree?: RemoveTree;
  readonly clock?: Clock;
}

export interface OpenState extends State {
  /** Writes under way end, later ones are refused. Deletions stop; the next start goes on with them. */
  close(): Promise<void>;
}

/** Everything that the driver remembers. Whatever a killed life left half-made or half-deleted is gone when it resolves. */
export async function openState(options: OpenStateOptions): Promise<OpenState> {
  const { stateDir, run, mounts, log, signal, clock = systemClock } = options;
  const { files = createNodeFiles(), removeTree = createRemoveTree({ run }) } = options;
  const layout = layoutOf(stateDir.path);
  await prepareLayout(layout, files);
  await refuseMounts(layout, mounts);
  const clearing = createClearing({ files, removeTree, mounts, log, clock });
  for (const place of [layout.making, layout.trash]) await clearing.empty(place, signal);

  let open = true;
  const broken: BrokenRecord[] = [];
  const parts = {
    layout,
    files,
    clearing,
    trashFor: await trashPlaces(layout, files),
    failure: failureOn(layout, mounts),
    whileOpen: () => {
      if (!open) throw new DriverError("UNAVAILABLE", "the driver is stopping: repeat the call once it is back");
    },
  };
  const recordsOf = async <K extends DriverRecord["kind"]>(kind: K): Promise<RecordsOnDisk<RecordOf<K>>> => {
    const loaded = await loadRecords(kind, { layout, files, log });
    broken.push(...loaded.broken.map(({ nameSum: _, ...each }) => each));
    return createRecordsOnDisk({ ...parts, kind, index: createRecordIndex(kind, loaded.records, loaded.broken) });
  };
  const volumes = await recordsOf("volume");
  const snapshots = await recordsOf("snapshot");
  const groups = await recordsOf("group");
  return {
    volumes,
    snapshots,
    groups,
    broken,
    settled: clearing.settled,
    close: async () => {
      open = false;
      await Promise.all([volumes, snapshots, groups].map((each) => each.idle()));
      await clearing.stop();
    },
  };
}

/** A rename goes from one directory to another of one mount only. */
async function refuseMounts(layout: Layout, mounts: Pick<Mounts, "table">): Promise<void> {
  const own = [layout.folder("volume"), layout.folder("snapshot"), layout.folder("group"), layout.making, layout.trash];
  const mounted = (await mounts.table()).map((it) => it.mountPoint).filter((it) => own.includes(it));
  if (mounted.length === 0) return;
  throw new DriverError(
    "FAILED_PRECONDITION",
    `something is mounted at ${mounted.join(", ")}: all of ${layout.root} has to be one filesystem, mounted at ${layout.root} itself or above; unmount it and start again`,
  );
}

/** trash/<id>.<n>: what could not be deleted in an earlier life keeps its place. */
async function trashPlaces({ trash }: Layout, files: StateFiles): Promise<(id: string) => string> {
  const taken = new Set((await files.list(trash)).map((entry) => entry.name));
  return (id) => {
    let n = 0;
    while (taken.has(`${id}.${n}`)) n += 1;
    taken.add(`${id}.${n}`);
    return path.join(trash, `${id}.${n}`);
  };
}

function failureOn({ root }: Layout, mounts: Pick<Mounts, "table">) {
  return async (what: string, error: unknown): Promise<unknown> => {
    if (errnoOf(error) === undefined) return error;
    const table = await mounts.table().catch(() => []);
    const covers = (at: string) => root === at || root.startsWith(at === "/" ? at : `${at}/`);
    const on = table
      .filter((it) => covers(it.mountPoint))
      .reduce<(typeof table)[number] | undefined>(
        (deepest, it) => (deepest === undefined || it.mountPoint.length >= deepest.mountPoint.length ? it : deepest),
        undefined,
      );
    const filesystem = on === undefined ? "" : ` (filesystem ${on.source}, ${on.fsType}, mounted at ${on.mountPoint})`;
    return hostFailure(`${what}${filesystem}`, error);
  };
}
