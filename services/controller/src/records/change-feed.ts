import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { SecretName } from "../domain/secret/secret.ts";
import type { Asks } from "../domain/steps.ts";
import type { StoredEvent } from "../domain/store-types.ts";
import type { Store } from "../ports.ts";
import { type Changes, nodeChangeKey } from "./changes.ts";
import { refOfKey } from "./volume/volume-codec.ts";

export interface ChangeFeedDeps {
  readonly store: Store;
  readonly records: {
    /** undefined: it was learned at once. */
    learnOf(key: string, told: Told): Promise<void> | undefined;
  };
  /** Whatever is remembered of the store is forgotten or read again. */
  readonly lookAgain: () => Promise<void>;
  /** Events may have been missed: the reconcilers take up what other controllers left. Rejects when the store does not tell. */
  readonly missed: () => Promise<unknown>;
  /** Another controller wrote the record of a node. */
  readonly learnOfNode: (node: string) => Promise<void>;
  /** Another controller wrote the record of a plugin. */
  readonly learnOfPlugin: (plugin: string) => Promise<void>;
  /** Another controller learned how many volumes of a plugin a node takes, or forgot it; by slot key. */
  readonly learnOfLimit: (slots: string) => Promise<void>;
  /** Another controller wrote the grant of a scheduler. */
  readonly learnOfGrant: (scheduler: string) => Promise<void>;
  /** Another controller denied a certificate; by what it named. */
  readonly learnOfDenial: (subject: string) => Promise<void>;
  /** Another controller wrote a snapshot or a group of them. */
  readonly learnOfCut: (key: string, told: Told) => void;
  readonly changes: Changes;
  readonly secretChanged: (name: SecretName) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const pauseMs = 1_000;

const keyOfCut = ({ kind, key }: StoredEvent["ref"]): string => `${kind}:${key}`;

/** What an event says of the record that a controller wrote; what it does not say is undefined. */
export interface Told extends Asks {
  readonly rev: number | undefined;
  readonly plugin: string | undefined;
  /** Of a claim. */
  readonly node: string | undefined;
}

const readBody = ({ body }: Pick<StoredEvent, "body">): Told => {
  const said = fieldsOf(body);
  const word = (name: string): string | undefined => {
    const value = said[name];
    return typeof value === "string" ? value : undefined;
  };
  const { rev } = said;
  return {
    rev: typeof rev === "number" ? rev : undefined,
    plugin: word("plugin"),
    node: word("node"),
    untaken: said["untaken"] === true,
    anyone: said["anyone"] === true,
  };
};

const fieldsOf = (body: string): Readonly<Record<string, unknown>> => {
  try {
    const said: unknown = JSON.parse(body);
    return typeof said === "object" && said !== null ? (said as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
};

/**
 * What other controllers write wakes who waits here. It only wakes: a lost event costs time, never truth. Goes on from where it
 * was after a loss of the store. When the history no longer reaches back, or what an event tells could not be read, everything is
 * looked at again. Rejects when aborted.
 */
export const runChangeFeed = async (deps: ChangeFeedDeps): Promise<never> => {
  const { store, records, lookAgain, missed, learnOfPlugin, learnOfNode, learnOfLimit, learnOfCut, learnOfDenial } =
    deps;
  const { changes, clock, log, signal } = deps;
  /** undefined: events were missed, or none was followed yet. */
  let position: string | undefined;
  let round = linkSignals(signal);
  /** Something was not learned: everything is looked at again, also when no watch is under way that could end. */
  const lookAnew = (error: unknown): void => {
    position = undefined;
    round.abort(error);
  };

  const learn = ({ ref, own, ...event }: StoredEvent): Promise<void> | undefined => {
    // A woken waiter looks at what is known of the node here: the reading comes first.
    if (ref.kind === "node") return learnOfNode(ref.key).finally(() => changes.publish(nodeChangeKey(ref.key)));
    // Whoever committed it here has told it already.
    if (own !== undefined) return undefined;
    if (ref.kind === "volume") return records.learnOf(ref.key, readBody(event));
    if (ref.kind === "attach-limit") return learnOfLimit(ref.key);
    if (ref.kind === "grant") return deps.learnOfGrant(ref.key);
    if (ref.kind === "denial") return learnOfDenial(ref.key);
    if (ref.kind === "snapshot" || ref.kind === "group") return void learnOfCut(keyOfCut(ref), readBody(event));
    return ref.kind === "plugin" ? learnOfPlugin(ref.key) : undefined;
  };

  const take = (event: StoredEvent): void => {
    const { ref, own } = event;
    learn(event)?.catch((error: unknown) => {
      if (signal.aborted) return;
      log.warn("what another controller wrote could not be read", { [ref.kind]: ref.key, error });
      if (!(isHoldfastError(error) && error.reason === "RECORD_DAMAGED")) lookAnew(error);
    });
    if (ref.kind === "secret" && own === undefined) {
      const { namespace, id } = refOfKey(ref.key);
      deps.secretChanged({ namespace, name: id });
    }
    // Nothing is remembered of these: who waits for one reads it again.
    if (ref.kind === "snapshot" || ref.kind === "group") changes.publish(keyOfCut(ref));
  };

  for (;;) {
    signal.throwIfAborted();
    round = linkSignals(signal);
    try {
      if (position === undefined) {
        // Whatever happens behind this position is followed.
        const head = await store.head();
        await lookAgain();
        position = head;
        // It may take long: the feed is followed meanwhile.
        missed().catch(lookAnew);
      }
      for await (const event of store.watch(position, round.signal)) {
        take(event);
        position = event.token;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (isHoldfastError(error) && error.reason === "EVENTS_TRIMMED") {
        log.warn("events of other controllers were missed; everything is looked at again", { position });
        position = undefined;
        continue;
      }
      log.warn("the store's events cannot be followed now", { error });
    } finally {
      if (round.signal.aborted) position = undefined;
      round.dispose();
    }
    await clock.sleep(pauseMs, signal);
  }
};
