import { DriverError } from "../domain/driver-error.ts";
import type { DriverRecord } from "../domain/records.ts";
import type { BrokenRecord } from "../ports.ts";
import { sumOf } from "./layout.ts";
import type { RecordOf } from "./record-readers.ts";

/** A record that cannot be read, with what is still certain of its name: undefined may be any. */
export interface Broken extends BrokenRecord {
  readonly nameSum: string | undefined;
}

/** The records of one kind as they stand on disk, by id and by name. */
export interface RecordIndex<R extends DriverRecord> {
  all(): readonly R[];
  /** Throws for a broken one. */
  get(id: string): R | undefined;
  /** Throws when a broken one may bear the name, or several do. */
  byName(name: string): R | undefined;
  put(record: R): void;
  drop(id: string): void;
}

export function createRecordIndex<K extends DriverRecord["kind"]>(
  kind: K,
  records: readonly RecordOf<K>[],
  broken: readonly Broken[],
): RecordIndex<RecordOf<K>> {
  const byId = new Map<string, RecordOf<K>>(records.map((record) => [record.id, record]));
  const idsByName = new Map<string, Set<string>>();
  for (const { id, name } of records) idsByName.set(name, (idsByName.get(name) ?? new Set()).add(id));
  const brokenById = new Map(broken.map((each) => [each.id, each]));

  const refuse = ({ id, file, reason }: Broken, besides = ""): never => {
    throw new DriverError("FAILED_PRECONDITION", `${kind} ${id}${besides}: ${file}: ${reason}`);
  };
  const get = (id: string): RecordOf<K> | undefined => {
    const found = brokenById.get(id);
    return found === undefined ? byId.get(id) : refuse(found);
  };

  return {
    all: () => [...byId.values()],
    get,
    byName: (name) => {
      const [id, ...others] = idsByName.get(name) ?? [];
      if (others.length > 0)
        throw new DriverError(
          "FAILED_PRECONDITION",
          `several records of a ${kind} bear the name ${JSON.stringify(name)}: ${[id, ...others].join(", ")}; delete all but one of them by id`,
        );
      if (id !== undefined) return get(id);
      const sum = sumOf(name);
      const bearer =
        broken.find(({ nameSum }) => nameSum === sum) ?? broken.find(({ nameSum }) => nameSum === undefined);
      if (bearer === undefined) return undefined;
      const certain = bearer.nameSum !== undefined;
      return refuse(bearer, ` ${certain ? "bears" : "may bear"} the name ${JSON.stringify(name)}`);
    },
    put: (record) => {
      byId.set(record.id, record);
      idsByName.set(record.name, (idsByName.get(record.name) ?? new Set()).add(record.id));
    },
    drop: (id) => {
      const record = byId.get(id);
      if (record === undefined) return;
      byId.delete(id);
      const ids = idsByName.get(record.name);
      ids?.delete(id);
      if (ids?.size === 0) idsByName.delete(record.name);
    },
  };
}
