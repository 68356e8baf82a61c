/**
 * Watches over one hosted instance, from its preparation to its end: registers it when it is ready for the first time, tells
 * how it is, and asks for its restart when nothing else can help. It never restarts anything.
 *
 * V1 A plugin that says "not ready" is starting, for however long: never unhealthy, and no restart is asked for.
 * V2 A restart is not asked for while volumes or calls need the instance, unless its runner said so beforehand.
 * V3 Nobody's reading holds it up: followers have their own places in the feed.
 * V4 A plugin whose socket is waited for has the directory for it, whoever took that away: it cannot make it itself, and a restart
 *    would not help.
 */
import type { PluginFacts } from "@holdfast/csi/capabilities";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginPhase, PluginStatus } from "@holdfast/csi/plugin-status";
import type { Clock } from "@holdfast/shared/async/clock";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { HostedInstance } from "../../domain/plugin-registry.ts";
import { createOrderedFeed } from "./ordered-feed.ts";

export type SupervisionWord = "waiting" | "ready" | "unhealthy" | "healthy" | "restart-wanted" | "stopped";

export interface SupervisionStep {
  readonly word: SupervisionWord;
  readonly message: string;
  readonly at: number;
}

export interface Supervision {
  readonly connection: PluginConnection;
  /** How it is now, then every change; ends after "stopped". */
  follow(signal: AbortSignal): AsyncGenerator<SupervisionStep, void>;
  /** Tells "stopped" and ends. */
  stop(message: string): void;
  /** Ends without a word: the agent goes, the instance stays. */
  end(): void;
}

export interface SupervisionOptions {
  readonly instance: HostedInstance;
  readonly connection: PluginConnection;
  readonly wasRegistered: boolean;
  readonly register: (facts: PluginFacts) => Promise<void>;
  /** Makes the directory of its socket, if need be; answers why it cannot. Never rejects. */
  readonly keepPlace: () => Promise<string | undefined>;
  /** Why it must not be restarted now, or undefined. */
  readonly neededBy: () => string | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** Whether the time that a plugin may take to become ready runs in this phase. */
const timed: Record<PluginPhase, boolean> = {
  waiting: true,
  connecting: true,
  initialising: false, // V1
  ready: false,
  unhealthy: true,
  quarantined: true,
  closed: false,
};

/** Held-back requests, and the places of sockets that are waited for, are looked at again so often. */
const lookAgainMs = 1_000;

export function createSupervision(options: SupervisionOptions): Supervision {
  const { instance, connection, register, keepPlace, neededBy, clock, log, signal } = options;
  const life = linkSignals(signal);
  const feed = createOrderedFeed<SupervisionStep>(256);
  const wake = createNotifier();
  let registered = options.wasRegistered;
  let wasReady = false;
  let told: { readonly status: PluginStatus; readonly homeless: string | undefined } | undefined;
  /** The time to become ready begins when somebody said that the plugin starts. */
  let awaited = registered;
  let restartAt: number | undefined;
  let stopTimer = (): void => undefined;
  let stopPlaceTimer = (): void => undefined;
  /** Why there is no place for its socket. */
  let homeless: string | undefined;
  let last: SupervisionStep = { word: "waiting", message: "the socket was not looked at yet", at: clock.now() };

  const tell = (word: SupervisionWord, message: string): void => {
    // A request is made again; all else is told when it changes.
    if (word === last.word && message === last.message && word !== "restart-wanted") return;
    last = { word, message, at: clock.now() };
    feed.publish(last);
  };

  const reasonIn = ({ phase, reason = phase }: PluginStatus): string =>
    phase === "waiting" && homeless !== undefined ? `${reason}, and no directory for it: ${homeless}` : reason;

  const tellStatus = (status: PluginStatus): void => {
    if ((status === told?.status && homeless === told.homeless) || status.phase === "closed") return;
    told = { status, homeless };
    const { phase } = status;
    const reason = reasonIn(status);
    if (phase === "ready") tell(wasReady ? "healthy" : "ready", "");
    else if (phase === "initialising")
      tell("waiting", `initialising: ${reason}`); // V1
    else tell(registered || phase === "quarantined" ? "unhealthy" : "waiting", reason);
    wasReady ||= phase === "ready";
  };

  /** Asks when it is time, and looks again when it may be. */
  const askForRestart = (status: PluginStatus): void => {
    const { phase } = status;
    stopTimer();
    if (!awaited || !timed[phase]) {
      restartAt = undefined;
      return;
    }
    const now = clock.monotonic();
    restartAt ??= now + instance.healthTimeoutMs;
    let nextLook = restartAt;
    if (now >= restartAt) {
      const needed = instance.restartInUse ? undefined : neededBy();
      const what = `plugin ${instance.plugin} (allocation ${instance.allocation}) was not ready for ${instance.healthTimeoutMs} ms: ${reasonIn(status)}`;
      if (needed === undefined) {
        tell("restart-wanted", what);
        restartAt = now + instance.healthTimeoutMs;
        nextLook = restartAt;
      } else {
        tell("unhealthy", `${what}; no restart is asked for: ${needed}`); // V2
        nextLook = now + lookAgainMs;
      }
    }
    stopTimer = clock.timer(nextLook - now, () => wake.notify());
  };

  /** V4 */
  const lookAtPlace = ({ phase }: PluginStatus): void => {
    stopPlaceTimer();
    if (phase !== "waiting") return;
    stopPlaceTimer = clock.timer(lookAgainMs, () => wake.notify());
    void keepPlace().then((why) => {
      if (why === homeless || life.signal.aborted) return;
      homeless = why;
      if (why !== undefined)
        log.warn("a plugin has no place for its socket", {
          plugin: instance.plugin,
          allocation: instance.allocation,
          detail: why,
        });
      wake.notify();
    });
  };

  const drive = async (): Promise<void> => {
    for (;;) {
      const version = wake.version();
      const status = connection.status();
      if (status.phase === "ready" && status.facts !== undefined && !registered) {
        await register(status.facts);
        registered = true;
      }
      tellStatus(status);
      lookAtPlace(status);
      askForRestart(status);
      await wake.wait(version, life.signal);
    }
  };

  const stopListening = connection.onChange(() => wake.notify());
  drive().catch((error: unknown) => {
    if (!life.signal.aborted) log.error("a plugin is not supervised any more", { plugin: instance.plugin, error });
  });

  const end = (): void => {
    stopListening();
    stopTimer();
    stopPlaceTimer();
    life.abort(new DOMException("the supervision ended", "AbortError"));
    feed.end();
  };

  return {
    connection,
    async *follow(reader) {
      if (!awaited) {
        awaited = true;
        restartAt = clock.monotonic() + instance.healthTimeoutMs;
        wake.notify();
      }
      // No turn between the two: nothing is missed and nothing told twice. (V3)
      const since = feed.position();
      yield last.word === "healthy" ? { ...last, word: "ready" } : last;
      for await (const { item } of feed.after(since, reader)) yield item;
    },
    stop(message) {
      tell("stopped", message);
      end();
    },
    end,
  };
}
