import type { Clock } from "@holdfast/shared/async/clock";
import { isAbort } from "@holdfast/shared/async/signals";
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
    learnOf(key: string, told: Told): Promise<void>;
    forgetAll(): void;
  };
  /** Another controller wrote the record of a plugin. */
  readonly learnOfPlugin: (plugin: string) => Promise<void>;
  /** Another controller learned how many volumes of a plugin a node takes, or forgot it; by slot key. */
  readonly learnOfLimit: (slots: string) => Promise<void>;
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

const readBody = ({ body }: StoredEvent): Told => {
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
 * was after a loss of the store; when the history no longer reaches back, everybody is woken. Rejects when aborted.
 */
export const runChangeFeed = async (deps: ChangeFeedDeps): Promise<never> => {
  const { store, records, learnOfPlugin, learnOfLimit, learnOfCut, changes, clock, log, signal } = deps;
  let position: string | undefined;

  const learn = (event: StoredEvent): Promise<void> | undefined => {
    if (event.ref.kind === "volume") return records.learnOf(event.ref.key, readBody(event));
    if (event.ref.kind === "attach-limit") return learnOfLimit(event.ref.key);
    if (event.ref.kind === "snapshot" || event.ref.kind === "group")
      return void learnOfCut(keyOfCut(event.ref), readBody(event));
    return event.ref.kind === "plugin" ? learnOfPlugin(event.ref.key) : undefined;
  };

  const take = (event: StoredEvent): void => {
    position = event.token;
    // Whoever committed it here has told it already.
    if (event.own === undefined)
      learn(event)?.catch((error: unknown) => {
        if (!signal.aborted)
          log.warn("an event of another controller was lost", { [event.ref.kind]: event.ref.key, error });
      });
    if (event.ref.kind === "secret" && event.own === undefined) {
      const { namespace, id } = refOfKey(event.ref.key);
      deps.secretChanged({ namespace, name: id });
    }
    if (event.ref.kind === "node") changes.publish(nodeChangeKey(event.ref.key));
    // Nothing is remembered of these: who waits for one reads it again.
    if (event.ref.kind === "snapshot" || event.ref.kind === "group") changes.publish(keyOfCut(event.ref));
  };

  for (;;) {
    signal.throwIfAborted();
    try {
      if (position === undefined) {
        position = await store.head();
        // Whatever happened before this position was not seen.
        records.forgetAll();
      }
      for await (const event of store.watch(position, signal)) take(event);
      signal.throwIfAborted();
    } catch (error) {
      if (signal.aborted || isAbort(error)) signal.throwIfAborted();
      if (isHoldfastError(error) && error.reason === "EVENTS_TRIMMED") {
        log.warn("events of other controllers were missed; everything is looked at again", { position });
        position = undefined;
        continue;
      }
      log.warn("the store's events cannot be followed now", { error });
    }
    await clock.sleep(pauseMs, signal);
  }
};
