/** The reader of every kind of record, by its place in the store: for what looks at all of them. */
import { type SecretRecord, secretKey } from "../../domain/secret/secret.ts";
import type { AggregateKind, AggregateRef, StoredRecord } from "../../domain/store-types.ts";
import { readAccessGrant } from "../access/access-grants.ts";
import { readLearnedLimit } from "../attachment/learned-limits.ts";
import { readAudit } from "../audit-records.ts";
import { readNode } from "../node-codec.ts";
import { readOrphan } from "../orphan-records.ts";
import { readPlugin } from "../plugin-records.ts";
import { readQuota } from "../quota/quota-records.ts";
import { decodeCut, decodeCutTombstone } from "../snapshot-codec.ts";
import { readDenial } from "../trust/denial-records.ts";
import { readNodeToken } from "../trust/token-records.ts";
import { decodeClaimTombstone, decodeDeleteMark, decodeVolume, decodeVolumeTombstone } from "../volume/volume-codec.ts";
import { type RecordReader, recordReader } from "./record-reader.ts";
import { secretShape } from "./record-shapes.ts";

export const readSecret = recordReader<SecretRecord>({ shape: secretShape, keyOf: secretKey });

/** Leases and notes of controllers: nothing is decided from a field of theirs. */
const readMeta = recordReader<unknown>({ shape: () => undefined });

const readers: Record<Exclude<AggregateKind, "tombstone">, RecordReader<unknown>> = {
  volume: decodeVolume,
  "claim-set": readMeta,
  node: readNode,
  "attach-limit": readLearnedLimit,
  snapshot: decodeCut,
  group: decodeCut,
  plugin: readPlugin,
  secret: readSecret,
  meta: readMeta,
  audit: readAudit,
  orphan: readOrphan,
  quota: readQuota,
  grant: readAccessGrant,
  "node-token": readNodeToken,
  denial: readDenial,
};

const tombstoneReader = (key: string): RecordReader<unknown> => {
  if (key.startsWith("~delete/")) return decodeDeleteMark;
  const parts = key.split("/").length;
  if (parts === 2) return decodeVolumeTombstone;
  return parts === 3 ? decodeCutTombstone : decodeClaimTombstone;
};

const readerOf = ({ kind, key }: AggregateRef): RecordReader<unknown> =>
  kind === "tombstone" ? tombstoneReader(key) : readers[kind];

/** Throws RECORD_DAMAGED for what its users could not read. */
export const judgeRecord = (stored: StoredRecord): void => void readerOf(stored.ref)(stored);
