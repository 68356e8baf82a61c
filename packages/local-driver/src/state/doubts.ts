import path from "node:path";
import { DriverError } from "../domain/driver-error.ts";
import type { DriverRecord } from "../domain/records.ts";
import { errnoOf, messageOf } from "../host/host-failure.ts";
import type { Clearing } from "./clearing.ts";
import { type Layout, recordFile } from "./layout.ts";
import { decodeRecord, maxRecordBytes } from "./record-codec.ts";
import type { RecordIndex } from "./record-index.ts";
import type { RecordOf } from "./record-readers.ts";
import type { StateFiles } from "./state-files.ts";

/**
 * Records of which the disk did not say whether a write arrived. The process would see the one thing and a restart after a loss of
 * power the other; so nothing is told of such a record until what is there has been written again, and the disk has confirmed that.
 */
export interface Doubts {
  add(record: Pick<DriverRecord, "id" | "name">, error: unknown, trash?: string): void;
  has(id: string): boolean;
  /** How it is refused. */
  refusal(id: string): DriverError;
  /** Throws that for a record in doubt, and has it settled. */
  refuse(id: string): void;
  refuseName(name: string): void;
  /** What its file holds, durably; undefined when it is not there. Rejects while the disk goes on failing. */
  settle(id: string): Promise<Buffer | undefined>;
}

export interface DoubtsParts<K extends DriverRecord["kind"]> {
  readonly kind: K;
  readonly layout: Layout;
  readonly files: StateFiles;
  readonly index: RecordIndex<RecordOf<K>>;
  readonly clearing: Clearing;
  /** The whole of a record's file, durable. */
  readonly replace: (directory: string, file: Buffer) => Promise<void>;
  /** Settles it when its turn comes. */
  readonly wake: (id: string) => void;
}

interface Doubt {
  readonly name: string;
  readonly why: string;
  /** Where it was being moved to. */
  readonly trash: string | undefined;
}

export function createDoubts<K extends DriverRecord["kind"]>(parts: DoubtsParts<K>): Doubts {
  const { kind, layout, files, index, clearing, replace, wake } = parts;
  const folder = layout.folder(kind);
  const doubts = new Map<string, Doubt>();

  const refusal = (id: string): DriverError => {
    const { name, why } = doubts.get(id) ?? { name: "", why: "" };
    return new DriverError(
      "UNAVAILABLE",
      `${kind} ${id} (${JSON.stringify(name)}): the disk of ${layout.root} did not confirm the last write of its record (${why}); it is looked up and written again: repeat the call, and look at the disk and the kernel log of this node if that goes on`,
    );
  };
  const refuse = (id: string): void => {
    if (!doubts.has(id)) return;
    wake(id);
    throw refusal(id);
  };

  return {
    add: ({ id, name }, error, trash) => doubts.set(id, { name, why: messageOf(error), trash }),
    has: (id) => doubts.has(id),
    refusal,
    refuse,
    refuseName: (name) => {
      for (const [id, doubt] of doubts) if (doubt.name === name) refuse(id);
    },
    settle: async (id) => {
      const directory = path.join(folder, id);
      const file = await files.read(recordFile(directory), maxRecordBytes).catch((error: unknown) => {
        if (errnoOf(error) === "ENOENT") return undefined;
        throw error;
      });
      if (file === undefined) {
        for (const each of [folder, layout.making, layout.trash]) await files.syncDirectory(each);
        const trash = doubts.get(id)?.trash;
        index.drop(id);
        doubts.delete(id);
        await clearing.clear(path.join(layout.making, id));
        if (trash !== undefined) clearing.soon(trash);
        return undefined;
      }
      const read = decodeRecord(file, { kind, id });
      if (!("record" in read)) throw new Error(read.reason);
      // Not just synced again: after a failed sync the kernel takes pages for clean that never reached the disk.
      await replace(directory, file);
      await files.syncDirectory(folder);
      index.put(read.record);
      doubts.delete(id);
      return file;
    },
  };
}
