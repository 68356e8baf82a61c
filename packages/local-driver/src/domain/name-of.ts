import type { DriverRecord } from "./records.ts";

/** As messages name a record: by what the caller and what the operator know it by. */
export const nameOf = ({ kind, id, name }: DriverRecord): string => `${kind} ${id} (${JSON.stringify(name)})`;
