/**
 * Brings a Redis to what this version needs: its function library, the identity of a new store, and the facts that only a user
 * with CONFIG GET can find out. Done as a user of its own (HOLDFAST_STORE_MIGRATE), or as the controller's where that one may.
 */
import { reads, type StoreFormats } from "../../domain/store-format.ts";
import { halfImported, importingSchema } from "../import-mark.ts";
import { unreadableFormat } from "../store-unfit-error.ts";
import { isForbidden, isMissingFunction } from "./call-failure.ts";
import { libraryFunctions, libraryName, readLibrary } from "./library.ts";
import type { RedisConnection } from "./redis-connection.ts";
import type { RedisKeys } from "./redis-keys.ts";
import { askDurability, encodeDurability } from "./start-gate.ts";
import { type FoundIdentity, readIdentity } from "./store-identity.ts";

export const refuseUnreadable = (
  store: string,
  found: FoundIdentity,
  formats: StoreFormats,
  importing = false,
): void => {
  // A store without an identity has no records either.
  if (found.clusterUid === "") return;
  if (found.format === importingSchema) {
    if (importing) return;
    throw halfImported(store);
  }
  if (!reads(formats, found.format)) throw unreadableFormat(store, found.format, formats);
};

export interface LibraryState {
  readonly state: "current" | "missing" | "other";
  readonly identity: FoundIdentity | undefined;
}

export const readLibraryState = async (connection: RedisConnection, keys: RedisKeys): Promise<LibraryState> => {
  try {
    const identity = await readIdentity(
      connection.shown,
      (_, command, ...args) => connection.call(command, ...args),
      keys,
    );
    return { state: identity.digest === readLibrary().digest ? "current" : "other", identity };
  } catch (error) {
    if (isMissingFunction(error)) return { state: "missing", identity: undefined };
    throw error;
  }
};

export interface MigrateOptions {
  readonly connection: RedisConnection;
  readonly keys: RedisKeys;
  /** For the identity of a store that has none; absent = a store without one is left without. */
  readonly newClusterUid: string | undefined;
  /** The generation that such a store begins with. */
  readonly newGen?: number;
  /** A backup is being put into it: a store without an identity is marked so with its first word. */
  readonly importing?: boolean;
  /** What is read here; a new store begins with the newest. */
  readonly formats: StoreFormats;
}

/** Does what is missing, as far as its user may; running it again changes nothing. What is still missing then, the gate tells. */
export const migrate = async (options: MigrateOptions): Promise<void> => {
  const { connection, keys, newClusterUid, newGen = 0, importing = false, formats } = options;
  const newSchema = importing ? importingSchema : formats.newest;
  const ifAllowed = async (command: string, ...args: readonly (string | number)[]): Promise<void> => {
    try {
      await connection.call(command, ...args);
    } catch (error) {
      if (!isForbidden(error)) throw error;
    }
  };
  let { state, identity } = await readLibraryState(connection, keys);
  if (identity !== undefined) refuseUnreadable(connection.shown, identity, formats, importing);
  if (state !== "current") {
    await ifAllowed("FUNCTION", "LOAD", "REPLACE", readLibrary().code);
    ({ state, identity } = await readLibraryState(connection, keys));
  }
  if (state !== "current" || identity === undefined) return;
  refuseUnreadable(connection.shown, identity, formats, importing);
  if (identity.clusterUid === "" && newClusterUid !== undefined)
    await ifAllowed("FCALL", libraryFunctions.init, 2, keys.meta, keys.events, newClusterUid, newSchema, newGen);
  const durability = await askDurability(connection, identity.runId);
  if (durability !== undefined && identity.durability !== encodeDurability(durability))
    await ifAllowed("HSET", keys.meta, "durability", encodeDurability(durability));
};

export const missingLibrary = `${libraryName} is not loaded: set HOLDFAST_STORE_MIGRATE to the address of a user that may FUNCTION LOAD`;
