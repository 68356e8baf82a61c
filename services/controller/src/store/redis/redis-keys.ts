import type { AggregateRef } from "../../domain/store-types.ts";

/** Every key of a cell carries its hash tag: one slot, so that several records change in one step also in a Redis Cluster. */
export const redisKeys = (cell: string) => {
  const prefix = `{hf:${cell}}`;
  return {
    prefix,
    record: (ref: AggregateRef) => `${prefix}:r:${ref.kind}:${ref.key}`,
    index: (name: string, value: string) => `${prefix}:i:${name}:${value}`,
    due: (queue: string) => `${prefix}:due:${queue}`,
    events: `${prefix}:events`,
    meta: `${prefix}:meta`,
  };
};
