import type { Clock } from "@holdfast/shared/async/clock";
import { every } from "@holdfast/shared/async/every";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { StoreFormats } from "../../domain/store-format.ts";
import type { Ids } from "../../ports.ts";
import { importingSchema } from "../import-mark.ts";
import type { StateFile } from "../state-file.ts";
import { StoreUnfitError } from "../store-unfit-error.ts";
import { aclCommand, controllerRules, migratorRules } from "./acl.ts";
import { CallFailure } from "./call-failure.ts";
import { inspectServer, type ServerFindings } from "./inspect-server.ts";
import { migrate } from "./migrate.ts";
import { onlineReplicas } from "./parse-info.ts";
import type { RedisAccess } from "./redis-access.ts";
import { parseRedisAddress } from "./redis-address.ts";
import { createRedisConnection, type RedisConnection } from "./redis-connection.ts";
import { createRedisKeys } from "./redis-keys.ts";
import { createRedisStore, type RedisStore } from "./redis-store.ts";
import { refuseOldServer } from "./start-gate.ts";

export interface RedisStoreTuning {
  readonly commandTimeoutMs?: number;
  /** How long a lost answer is looked for. */
  readonly settleMs?: number;
  readonly startTimeoutMs?: number;
  readonly recheckMs?: number;
  readonly maxEvents?: number;
}

export interface OpenRedisStoreOptions {
  readonly url: string;
  /** A user that may load functions and CONFIG GET, used at the start and after a restart of Redis; absent = the first one tries. */
  readonly migrateUrl?: string;
  readonly access: RedisAccess;
  readonly cell: string;
  /** Goes on although the store may forget what it acknowledged. */
  readonly allowVolatile: boolean;
  readonly declaredDurable: boolean;
  /** What a store without an identity becomes, in place of a new installation: that of a backup. */
  readonly adopt?: AdoptedLineage;
  /** What is read here. */
  readonly formats: StoreFormats;
  /** Remembers, outside of Redis, whose data this controller works on. */
  readonly identity: StateFile;
  readonly log: Logger;
  readonly clock: Clock;
  readonly ids: Ids;
  /** Ends the checks that go on in the background. */
  readonly signal: AbortSignal;
  readonly tuning?: RedisStoreTuning;
}

export interface AdoptedLineage {
  readonly clusterUid: string;
  readonly gen: number;
}

const blockMs = 5000;
const restMs = 10;
const volatileAdvice =
  "Acknowledged claims may be lost. HOLDFAST_ALLOW_VOLATILE_STORE=1 starts nevertheless, for trials only.";

export const openRedisStore = async (options: OpenRedisStoreOptions): Promise<RedisStore> => {
  const { cell, identity, log, clock, ids, signal, formats, tuning = {} } = options;
  const { commandTimeoutMs = 2000, recheckMs = 10_000, startTimeoutMs = 10_000, maxEvents = 100_000 } = tuning;
  const { settleMs = 3 * commandTimeoutMs } = tuning;
  const random = (): number => ids.random();
  const keys = createRedisKeys(cell);
  const connect = (url: string, name: string, timeoutMs = commandTimeoutMs): RedisConnection =>
    createRedisConnection({
      address: parseRedisAddress(url),
      access: options.access,
      keys,
      name: `holdfast-${name}`,
      commandTimeoutMs: timeoutMs,
      log,
      clock,
      random,
    });
  const connection = connect(options.url, "controller");
  const importing = options.adopt !== undefined;

  const prepare = async (newClusterUid: string | undefined): Promise<void> => {
    const wanted = { keys, newClusterUid, newGen: options.adopt?.gen ?? 0, importing, formats };
    if (options.migrateUrl === undefined) return void (await migrate({ connection, ...wanted }));
    const migrator = connect(options.migrateUrl, "migrator");
    try {
      await migrate({ connection: migrator, ...wanted });
    } finally {
      migrator.close();
    }
  };
  let askConfig = true;
  const inspect = async (clusterUid: string | undefined): Promise<ServerFindings> => {
    const { declaredDurable } = options;
    const found = await inspectServer({ connection, keys, clusterUid, declaredDurable, askConfig, importing, formats });
    askConfig = found.mayConfigure;
    return found;
  };

  let opened = false;
  try {
    await firstConnection(connection, startTimeoutMs, clock, signal);
    await refuseOldServer(connection);
    const known = options.adopt?.clusterUid ?? identity.read();
    await prepare(known === undefined ? ids.uuid() : options.adopt?.clusterUid);
    const found = await inspect(known);
    if (found.identity === undefined || found.identityFaults.length > 0)
      throw new StoreUnfitError(
        found.identity === undefined ? "CONFIG_INVALID" : "STORE_FOREIGN",
        connection.shown,
        found.identityFaults,
        found.identity === undefined ? undefined : cureOfIdentity(known, identity),
      );
    if (found.faults.length > 0) {
      const unfit = new StoreUnfitError("STORE_VOLATILE", connection.shown, found.faults, volatileAdvice);
      if (!options.allowVolatile) throw unfit;
      log.warn("THE STORE IS VOLATILE: acknowledged claims may be lost", { faults: unfit.message });
    }
    const { clusterUid, runId, gen, format, sequence } = found.identity;
    identity.write(clusterUid);
    if (found.mayConfigure)
      log.info(
        "the store's user may do more than the controller needs; in production give it and a migrator only this",
        {
          controller_acl: aclCommand("holdfast", controllerRules(cell)),
          migrator_acl: aclCommand("holdfast-migrator", migratorRules(cell)),
        },
      );

    const tailConnection = connect(options.url, "controller-events", blockMs + commandTimeoutMs);
    const parts = {
      connection,
      tailConnection,
      cell,
      clusterUid,
      runId,
      gen,
      sequence,
      format,
      // While a backup is put into it, the mark of that stands in the place of its format.
      formats: importing ? { ...formats, newest: importingSchema } : formats,
      settleMs,
      maxEvents,
      blockMs,
      restMs,
      clock,
      log,
    };
    const store = createRedisStore(parts);
    let refusal: string | undefined;
    const tellRefusal = (now: ServerFindings): void => {
      const why = now.refusal?.description;
      if (why === refusal) return;
      refusal = why;
      if (why !== undefined) log.warn("THE STORE TAKES NO WRITES", { store: connection.shown, why });
      else log.info("the store takes writes again", { store: connection.shown });
    };
    tellRefusal(found);
    store.sawReplicas(onlineReplicas(found.info));

    // Its blocking read is ended in the moment in which a master becomes a replica.
    tailConnection.onDemoted(connection.demoted);
    // Nothing ends the read at a master that was replaced and does not know.
    connection.onDemoted(tailConnection.demoted);

    let told: string | undefined;
    const tell = (finding: string | undefined): void => {
      if (finding === told) return;
      told = finding;
      store.setUnfit(finding);
      if (finding !== undefined) store.suspect(finding);
      else log.info("the store is fit again");
    };
    let preparedFor = runId;
    let lookedAt = runId;
    const recheck = async (): Promise<void> => {
      let now = await inspect(clusterUid);
      if (now.faults.length + now.identityFaults.length > 0 && preparedFor !== now.runId) {
        // Another process: nobody has asked it yet how durable it is.
        await prepare(undefined);
        preparedFor = now.runId;
        now = await inspect(clusterUid);
      }
      if (now.info["role"] === "slave") return connection.demoted("a look at it found it to be a replica");
      const replaced = await connection.replaced();
      if (replaced !== undefined) return connection.demoted(replaced);
      store.sawReplicas(onlineReplicas(now.info));
      tellRefusal(now);
      if (now.identity !== undefined) store.noteFormat(now.identity.format);
      const faults = [...now.identityFaults, ...(options.allowVolatile ? [] : now.faults)];
      const first = lookedAt !== now.runId;
      lookedAt = now.runId;
      tell(faults.length === 0 ? undefined : faults.map((fault) => `${fault.field} ${fault.description}`).join("; "));
      // Whoever vets it was refused until now.
      if (first && faults.length === 0) store.lookAgain("it was looked at, and is fit");
    };
    /** No answer is no finding: whoever needs the store then is told so by the call itself. */
    const unlessAway = (error: unknown): void => {
      if (error instanceof CallFailure || signal.aborted) return;
      if (error instanceof StoreUnfitError) tell(error.message);
      log.error("the check of the store failed", { error });
    };
    const ended = AbortSignal.any([signal, store.closed]);
    // One after the other: an answer from before a preparation would undo what was found after it.
    let looking: Promise<void> = Promise.resolve();
    const look = (): Promise<void> => {
      looking = looking.catch(() => undefined).then(recheck);
      return looking;
    };
    connection.onConnected(({ runId: found }) => {
      if (found !== lookedAt) {
        told = `process ${found} was not looked at yet`;
        store.setUnfit(told);
      }
      look().catch(unlessAway);
    });
    every(recheckMs, look, { signal: ended, clock, random, jitter: 0.2, onError: unlessAway }).catch(() => undefined);
    opened = true;
    return store;
  } catch (error) {
    if (!(error instanceof CallFailure)) throw error;
    const why = error.code === "NOREPLICAS" ? (await inspect(undefined).catch(() => undefined))?.refusal : undefined;
    throw cannotStart(connection.shown, error, why?.description);
  } finally {
    if (!opened) connection.close();
  }
};

const cannotStart = (store: string, failure: CallFailure, why = failure.message): HoldfastError =>
  new HoldfastError({
    kind: "unavailable",
    reason: "STORE_UNAVAILABLE",
    message: `the store ${store} cannot be opened: ${why}`,
    metadata: { store },
    cause: failure,
  });

const cureOfIdentity = (known: string | undefined, file: StateFile): string | undefined =>
  known === undefined
    ? undefined
    : `This controller belongs to installation ${known}. Correct the address or the cell, or restore a backup (holdfast import), ` +
      `or make its records anew from what the agents hold (holdfast rebuild); to give up what it knew and begin anew remove ${file.path}.`;

/** Waits longer than a call does: at the start of a host Redis may come up after the controller. */
const firstConnection = async (
  connection: RedisConnection,
  timeoutMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> => {
  const until = clock.monotonic() + timeoutMs;
  for (;;) {
    signal.throwIfAborted();
    try {
      await connection.connected();
      return;
    } catch (error) {
      if (!(error instanceof CallFailure) || clock.monotonic() >= until) throw error;
    }
  }
};
