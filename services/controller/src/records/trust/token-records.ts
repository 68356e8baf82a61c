/**
 * Tokens of nodes. TK1 A token is used up by the commit that marks it, over the revision that was judged: of two controllers one wins, and
 * the other one judges again.
 */
import type { AuditedAs } from "../../domain/repair/audit.ts";
import type { AggregateRef } from "../../domain/store-types.ts";
import { type NodeToken, rememberedMs } from "../../domain/trust/node-token.ts";
import { changedAllTheTime } from "../commit-rounds.ts";
import { createRecordTable, type RecordTableDeps } from "../record-table.ts";
import { recordReader } from "../shape/record-reader.ts";
import { nodeTokenShape } from "./trust-shapes.ts";

export interface TokenRecords {
  add(token: NodeToken, audit: AuditedAs): Promise<void>;
  /** TK1. `judge` throws when the token is refused; nothing is stored then. */
  use(
    hash: string,
    judge: (token: NodeToken | undefined) => Promise<{ readonly token: NodeToken; readonly audit: AuditedAs }>,
  ): Promise<void>;
}

const refOf = (hash: string): AggregateRef => ({ kind: "node-token", key: hash });

export const readNodeToken = recordReader<NodeToken>({ shape: nodeTokenShape, keyOf: ({ hash }) => hash });

export const createTokenRecords = (deps: RecordTableDeps): TokenRecords => {
  const table = createRecordTable<string, NodeToken>(deps, {
    refOf,
    read: readNodeToken,
    encode: (token, now) => ({
      body: JSON.stringify(token),
      indexes: [],
      due: [],
      ttlMs: Math.max(1, token.endsAt - now) + rememberedMs,
    }),
    busy: () => changedAllTheTime("the record of the token"),
  });
  return {
    async add(token, audit) {
      await table.insert(token.hash, () => ({ record: token, audit }));
    },
    async use(hash, judge) {
      await table.change(hash, async (found) => {
        const { token, audit } = await judge(found?.record);
        return { record: token, audit };
      });
    },
  };
};
