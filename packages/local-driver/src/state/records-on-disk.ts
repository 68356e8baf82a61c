/**
 * The records of one kind.
 *
 * D1 A record exists iff its directory is in its folder. It gets there whole, by one rename; it leaves by one rename.
 * D2 What memory tells is on the disk: a write is told only after the sync of what it changed.
 * D3 Before the rename of a write the old state is whole, and a failure leaves it so. In and after the rename a failure is a doubt, and
 *    the disk is asked what it holds before anything of that record is told again.
 * D4 Writes to one record come one after another.
 * D5 A record that could not be read is neither served nor touched, and no other takes the name that it may bear.
 */
import path from "node:path";
import { createKeyedLanes } from "@holdfast/shared/async/keyed-lanes";
import { DriverError } from "../domain/driver-error.ts";
import { nameOf } from "../domain/name-of.ts";
import type { DriverRecord } from "../domain/records.ts";
import type { Records } from "../ports.ts";
import type { Clearing } from "./clearing.ts";
import { createDoubts } from "./doubts.ts";
import { contentsOf, type Layout, nameMark, recordFile, unfinishedFile } from "./layout.ts";
import { sealRecord } from "./record-codec.ts";
import type { RecordIndex } from "./record-index.ts";
import { type RecordOf, safeId } from "./record-readers.ts";
import type { StateFiles } from "./state-files.ts";

export interface RecordsParts<K extends DriverRecord["kind"]> {
  readonly kind: K;
  readonly layout: Layout;
  readonly files: StateFiles;
  readonly index: RecordIndex<RecordOf<K>>;
  readonly clearing: Clearing;
  /** A place in trash/ that is free. */
  readonly trashFor: (id: string) => string;
  /** What went wrong with the disk, as the caller shall read it. */
  readonly failure: (what: string, error: unknown) => Promise<unknown>;
  /** Throws once the state is closed. */
  readonly whileOpen: () => void;
}

export interface RecordsOnDisk<R extends DriverRecord> extends Records<R> {
  /** Resolves when no write is under way. */
  idle(): Promise<void>;
}

export function createRecordsOnDisk<K extends DriverRecord["kind"]>(
  parts: RecordsParts<K>,
): RecordsOnDisk<RecordOf<K>> {
  type R = RecordOf<K>;
  const { kind, layout, files, index, clearing, trashFor, failure, whileOpen } = parts;
  const folder = layout.folder(kind);
  const lanes = createKeyedLanes();
  const writes = new Set<Promise<unknown>>();
  const namesInMaking = new Set<string>();

  const placeOf = (id: string): string => {
    if (!safeId.test(id)) throw new DriverError("NOT_FOUND", `there is no ${kind} ${JSON.stringify(id)}`);
    return path.join(folder, id);
  };

  const write = async (directory: string, file: Buffer): Promise<void> => {
    const unfinished = unfinishedFile(directory);
    try {
      await files.write(unfinished, file);
    } catch (error) {
      await files.unlink(unfinished).catch(() => undefined);
      throw error;
    }
  };
  const putInPlace = async (directory: string): Promise<void> => {
    await files.rename(unfinishedFile(directory), recordFile(directory));
    await files.syncDirectory(directory);
  };

  /** D4. One in doubt is settled first (D3). */
  const alone = async <T>(id: string, act: () => Promise<T>): Promise<T> => {
    const work = lanes.run(id, undefined, async () => {
      whileOpen();
      if (doubts.has(id))
        await doubts.settle(id).catch(() => {
          // Once a call, and not by itself: a disk that fails is not asked in a loop.
          throw doubts.refusal(id);
        });
      return await act();
    });
    writes.add(work);
    try {
      return await work;
    } finally {
      writes.delete(work);
    }
  };

  const doubts = createDoubts({
    kind,
    layout,
    files,
    index,
    clearing,
    replace: async (directory, file) => {
      await write(directory, file);
      await putInPlace(directory);
    },
    wake: (id) => {
      // Whoever has its turn settles it, and then the next finds nothing to do. The failure is told by the next refusal.
      if (lanes.waiting(id) === 0) alone(id, async () => undefined).catch(() => undefined);
    },
  });

  /** The part of a write from which on its outcome is the disk's word alone (D3). `wanted`: what the record's file shall hold then. */
  const land = async (
    what: string,
    record: R,
    { wanted, trash }: { readonly wanted: Buffer | undefined; readonly trash?: string },
    act: () => Promise<void>,
  ): Promise<void> => {
    try {
      await act();
    } catch (error) {
      doubts.add(record, error, trash);
      const found = await doubts.settle(record.id).catch(() => "unknown" as const);
      const arrived =
        found === undefined || wanted === undefined ? found === wanted : found !== "unknown" && found.equals(wanted);
      if (!arrived) throw await failure(what, error);
    }
  };

  const refuseTaken = ({ id, name }: R): void => {
    const taken = index.get(id) ?? index.byName(name); // D5
    if (taken !== undefined) throw new DriverError("ALREADY_EXISTS", `${nameOf(taken)} is there already`);
    doubts.refuseName(name);
    if (namesInMaking.has(name))
      throw new DriverError("ABORTED", `a ${kind} named ${JSON.stringify(name)} is being made; repeat the call`);
  };

  const make = async (record: R, fill: (paths: ReturnType<typeof contentsOf>) => Promise<void>): Promise<void> => {
    const making = path.join(layout.making, record.id);
    const sealed = sealRecord(kind, record);
    const what = `make ${nameOf(record)} in ${folder}`;
    try {
      if (!(await files.makeDirectory(making)))
        throw new DriverError("ABORTED", `cannot ${what}: what an earlier attempt left in ${making} is still there`);
      await fill(contentsOf(making));
      whileOpen();
      await files.mark(nameMark(making, record.name));
      await files.write(recordFile(making), sealed.file);
      await files.syncDirectory(making);
    } catch (error) {
      await clearing.clear(making);
      throw await failure(what, error);
    }
    await land(what, record, { wanted: sealed.file }, async () => {
      await files.rename(making, placeOf(record.id)); // D1
      await files.syncDirectory(folder);
      await files.syncDirectory(layout.making);
    });
    index.put(sealed.record); // D2
  };

  return {
    all: index.all,
    get: (id) => {
      doubts.refuse(id);
      return index.get(id);
    },
    byName: (name) => {
      doubts.refuseName(name);
      return index.byName(name);
    },
    paths: (id) => contentsOf(placeOf(id)),
    add: async (record, fill) => {
      placeOf(record.id);
      await alone(record.id, async () => {
        refuseTaken(record);
        namesInMaking.add(record.name);
        try {
          await make(record, fill);
        } finally {
          namesInMaking.delete(record.name);
        }
      });
    },
    change: async (id, change) =>
      await alone(id, async () => {
        const directory = placeOf(id);
        const before = index.get(id);
        if (before === undefined) throw new DriverError("NOT_FOUND", `there is no ${kind} ${id}`);
        const after = sealRecord(kind, change(before));
        if (after.record.id !== id || after.record.name !== before.name)
          throw new DriverError("INTERNAL", `${nameOf(before)}: a change would give it another identity`);
        if (after.file.equals(sealRecord(kind, before).file)) return before;
        const what = `store the record of ${nameOf(before)} in ${directory}`;
        try {
          await write(directory, after.file);
        } catch (error) {
          throw await failure(what, error);
        }
        await land(what, before, { wanted: after.file }, () => putInPlace(directory));
        index.put(after.record); // D2
        return after.record;
      }),
    remove: async (id) =>
      await alone(id, async () => {
        const record = index.get(id); // D5
        if (record === undefined) return;
        const trash = trashFor(id);
        await land(`remove ${nameOf(record)} from ${folder}`, record, { wanted: undefined, trash }, async () => {
          await files.rename(placeOf(id), trash); // D1
          await files.syncDirectory(folder);
          await files.syncDirectory(layout.trash);
        });
        index.drop(id); // D2
        clearing.soon(trash);
      }),
    idle: async () => {
      while (writes.size > 0) await Promise.allSettled(writes);
    },
  };
}
