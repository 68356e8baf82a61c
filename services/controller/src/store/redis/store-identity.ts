import { metaNumber } from "../store-errors.ts";
import { libraryFunctions } from "./library.ts";
import type { RedisKeys } from "./redis-keys.ts";

export interface FoundIdentity {
  /** Of the function library that is loaded. */
  readonly digest: string;
  readonly runId: string;
  /** Empty: there is none. */
  readonly clusterUid: string;
  readonly format: number;
  readonly gen: number;
  /** Empty in another replication history than the vetted one. */
  readonly vettedRunId: string;
  /** What was found out about durability by a user that may ask; see start-gate.ts. */
  readonly durability: string;
  /** Number of the newest commit; 0: there was none. */
  readonly sequence: number;
  /** Of the generation; empty: it was vetted by an earlier version. */
  readonly vettingUid: string;
  /** The generation was begun for this process, in this history of its data. */
  readonly begun: boolean;
  /** Uid of the newest vetting that ended; empty: none since an earlier version. */
  readonly lastVetted: string;
  /** What was committed between the two numbers is lost; undefined: it is not known what was. */
  readonly turn: Turn | undefined;
}

/** The data came to this process: the newest commit before that, and the first number after it. */
export interface Turn {
  readonly lastBefore: number;
  readonly firstAfter: number;
}

/** Process and data in one moment: asked one after the other, a restart could come in between. */
export const readIdentity = async (
  store: string,
  ask: (what: string, command: string, ...args: readonly (string | number)[]) => Promise<unknown>,
  keys: RedisKeys,
): Promise<FoundIdentity> => {
  const reply = (await ask("identity", "FCALL_RO", libraryFunctions.identity, 2, keys.meta, keys.absent)) as string[];
  const [
    digest = "",
    runId = "",
    clusterUid = "",
    schema = "",
    gen = "",
    vettedRunId = "",
    durability = "",
    commits = "",
    vettingUid = "",
    begun = "",
    lastVetted = "",
    lastBefore = "",
    firstAfter = "",
  ] = reply;
  // A store without an identity has no numbers either.
  const number = (field: string, text: string): number => (clusterUid === "" ? 0 : metaNumber(store, field, text));
  return {
    digest,
    runId,
    clusterUid,
    format: number("schema", schema),
    gen: number("gen", gen),
    vettedRunId,
    durability,
    vettingUid,
    begun: begun === "1",
    lastVetted,
    turn:
      lastBefore === "" || firstAfter === ""
        ? undefined
        : { lastBefore: number("lastBefore", lastBefore), firstAfter: number("firstAfter", firstAfter) },
    sequence: commits === "" ? 0 : metaNumber(store, "commits", commits),
  };
};
