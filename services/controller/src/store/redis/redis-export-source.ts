import type { Clock } from "@holdfast/shared/async/clock";
import type { Logger } from "@holdfast/shared/log/logger";
import { readableFormats } from "../../domain/store-format.ts";
import type { PlacedRecord } from "../../domain/store-types.ts";
import type { ExportIdentity, ExportSource } from "../export-source.ts";
import { storeUnavailable } from "../store-errors.ts";
import { libraryFunctions } from "./library.ts";
import { readLibraryState, refuseUnreadable } from "./migrate.ts";
import type { RedisAccess } from "./redis-access.ts";
import { parseRedisAddress } from "./redis-address.ts";
import { createRedisConnection, type RedisConnection } from "./redis-connection.ts";
import { createRedisKeys, type RedisKeys, refOfMember } from "./redis-keys.ts";

export interface RedisExportOptions {
  /** Of a user that may SCAN: the migrator, where there are two. */
  readonly url: string;
  readonly access: RedisAccess;
  readonly cell: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly random: () => number;
}

const scanned = 500;

const partsOf = (text: string): readonly string[] => (text === "" ? [] : text.split("\t"));

const placedRecords = (reply: readonly string[]): readonly PlacedRecord[] =>
  Array.from({ length: reply.length / 6 }, (_, i) => {
    const [member = "", rest = "0", queues = "", times = "", entries = "", body = ""] = reply.slice(i * 6, i * 6 + 6);
    const at = partsOf(times);
    const ref = refOfMember(member);
    if (!/^\d+$/.test(rest)) return { ref, body, indexes: [], due: [], damage: rest };
    return {
      ref,
      body,
      indexes: partsOf(entries).map((entry) => {
        const colon = entry.indexOf(":");
        return { index: entry.slice(0, colon), value: entry.slice(colon + 1) };
      }),
      due: partsOf(queues).map((queue, n) => ({ queue, at: Number(at[n]) })),
      ...(rest === "0" ? {} : { ttlMs: Number(rest) }),
    };
  });

const identityOf = async (connection: RedisConnection, keys: RedisKeys): Promise<ExportIdentity | undefined> => {
  const { identity } = await readLibraryState(connection, keys);
  if (identity === undefined || identity.clusterUid === "") return undefined;
  refuseUnreadable(connection.shown, identity, readableFormats);
  const { clusterUid, format: schema, gen } = identity;
  return { clusterUid, schema, gen };
};

/** Each record once, as it is at the moment when it is reached; controllers may go on meanwhile. */
export const openRedisExportSource = async (options: RedisExportOptions): Promise<ExportSource> => {
  const { access, cell, log, clock, random } = options;
  const address = parseRedisAddress(options.url);
  const keys = createRedisKeys(cell);
  const connection = createRedisConnection({
    address,
    access,
    keys,
    name: "holdfast-export",
    commandTimeoutMs: 10_000,
    log,
    clock,
    random,
  });
  const recordKeys = keys.record({ kind: "volume", key: "" }).slice(0, -2);
  try {
    const identity = await identityOf(connection, keys);
    if (identity === undefined)
      throw storeUnavailable(connection.shown, "export", new Error(`no controller of cell ${cell} has ever used it`));
    return {
      identity,
      async *records() {
        const seen = new Set<string>();
        let cursor = "0";
        const { runId } = await connection.connected();
        do {
          const pattern = `${recordKeys.replace(/[*?[\]\\]/g, "\\$&")}*`;
          const reply = await connection.call("SCAN", cursor, "MATCH", pattern, "COUNT", scanned);
          const [next, found] = reply as readonly [string, readonly string[]];
          const fresh = found.filter((key) => !seen.has(key));
          for (const key of fresh) seen.add(key);
          cursor = next;
          const members = fresh.map((key) => key.slice(recordKeys.length));
          // Asked without records, too: a scan does not say that a part of them was moved to another node.
          const args = [fresh.length + 1, ...fresh, keys.absent, keys.prefix, ...members];
          const placed = await connection.call("FCALL_RO", libraryFunctions.placed, ...args);
          // Where one process was in its scan says nothing to another one.
          if ((await connection.connected()).runId !== runId)
            throw storeUnavailable(connection.shown, "export", new Error("it is another process now: begin again"));
          yield* placedRecords(placed as readonly string[]);
        } while (cursor !== "0");
      },
      identityNow: () => identityOf(connection, keys),
      close: async () => connection.close(),
    };
  } catch (error) {
    connection.close();
    throw error;
  }
};
