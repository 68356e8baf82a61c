/**
 * A node's record as text. Format 1 names the address of the node and of a life that waits; format 2 leaves out one that is empty.
 * Both are read, whatever the store's format is: a record is written anew only when it changes.
 */
import type { NodeRecord } from "../domain/node/node.ts";
import { recordReader } from "./shape/record-reader.ts";
import { nodeShape } from "./shape/record-shapes.ts";

/** A release that reads format 1 alone takes a record without an address for a damaged one. */
const addressMayBeAbsent = 2;

const withoutEmpty = <T extends { readonly address: string }>({ address, ...rest }: T): object =>
  address === "" ? rest : { address, ...rest };

export const encodeNode = (record: NodeRecord, format: number): string =>
  JSON.stringify(
    format < addressMayBeAbsent
      ? record
      : { ...withoutEmpty(record), ...(record.pending && { pending: withoutEmpty(record.pending) }) },
  );

const parse = (body: string): NodeRecord => {
  const found: NodeRecord | null = JSON.parse(body);
  if (typeof found !== "object" || found === null) return found as unknown as NodeRecord;
  const { pending } = found;
  return {
    ...found,
    address: found.address ?? "",
    ...(pending && { pending: { ...pending, address: pending.address ?? "" } }),
  };
};

export const readNode = recordReader<NodeRecord>({ shape: nodeShape, keyOf: ({ name }) => name, parse });
