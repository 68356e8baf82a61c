import type { FieldViolation } from "@holdfast/shared/errors/holdfast-error";
import type { StoreFormats } from "../../domain/store-format.ts";
import { missingLibrary, readLibraryState, refuseUnreadable } from "./migrate.ts";
import { missingReplicas } from "./missing-replicas.ts";
import { parseInfo } from "./parse-info.ts";
import type { RedisConnection } from "./redis-connection.ts";
import type { RedisKeys } from "./redis-keys.ts";
import { askDurability, decodeDurability, startFaults } from "./start-gate.ts";
import type { FoundIdentity } from "./store-identity.ts";

export interface ServerFindings {
  readonly runId: string;
  /** The fields of INFO. */
  readonly info: Readonly<Record<string, string>>;
  /** The user may CONFIG GET, as one with all rights may; a restricted one that is refused once is not asked again. */
  readonly mayConfigure: boolean;
  /** undefined: the library is not there, or not this version's. */
  readonly identity: FoundIdentity | undefined;
  /** Why this is not the store of this controller; nothing helps against these but the right store. */
  readonly identityFaults: readonly FieldViolation[];
  /** Why it may lose what it acknowledged. */
  readonly faults: readonly FieldViolation[];
  /** Why it takes no writes now. */
  readonly refusal: FieldViolation | undefined;
}

export interface InspectServerOptions {
  readonly connection: RedisConnection;
  readonly keys: RedisKeys;
  /** Whose data must be there; undefined = anyone's. */
  readonly clusterUid: string | undefined;
  readonly declaredDurable: boolean;
  /** False: it is known that the user may not CONFIG GET; each try would stand in the server's ACL LOG. */
  readonly askConfig: boolean;
  /** A backup is being put into it. */
  readonly importing?: boolean;
  readonly formats: StoreFormats;
}

export const inspectServer = async (options: InspectServerOptions): Promise<ServerFindings> => {
  const { connection, keys, clusterUid, declaredDurable, askConfig, importing, formats } = options;
  const info = parseInfo(String(await connection.call("INFO")));
  const runId = info["run_id"] ?? "";
  const { state, identity } = await readLibraryState(connection, keys);
  const own = state === "current" ? identity : undefined;
  if (own !== undefined) refuseUnreadable(connection.shown, own, formats, importing);
  const asked = askConfig ? await askDurability(connection, runId) : undefined;
  const durability = asked ?? decodeDurability(own?.durability ?? "", runId);
  return {
    runId,
    info,
    mayConfigure: asked !== undefined,
    identity: own,
    identityFaults: identityFaults(own, clusterUid),
    faults: startFaults({ info, durability, declaredDurable }),
    refusal: missingReplicas(info, asked?.minReplicasToWrite),
  };
};

const identityFaults = (found: FoundIdentity | undefined, wanted: string | undefined): readonly FieldViolation[] => {
  if (found === undefined) return [{ field: "library", description: missingLibrary }];
  if (found.clusterUid === "")
    return [{ field: "clusterUid", description: "is missing: the store was flushed, or is another database" }];
  if (wanted !== undefined && found.clusterUid !== wanted)
    return [{ field: "clusterUid", description: `is ${found.clusterUid}, not ${wanted}` }];
  return [];
};
