/** The phase of a plugin connection, told to whoever listens and waited for by whoever needs it ready. */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals, throwIfAborted } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { PluginFacts } from "./capabilities.ts";

export type PluginPhase =
  /** No socket, or nobody listens on it. */
  | "waiting"
  | "connecting"
  /** It answers, and says that it is not ready yet. */
  | "initialising"
  | "ready"
  | "unhealthy"
  /** It came back as somebody else, or announces a name that is bound to another socket. */
  | "quarantined"
  | "closed";

export interface PluginStatus {
  readonly phase: PluginPhase;
  /** Wall clock, for display. */
  readonly since: number;
  readonly reason?: string;
  /** Of the connection that stands; present when ready, and while it is only ailing. */
  readonly facts?: PluginFacts;
  /** The name that it announces and that is not its own; only when quarantined for that. */
  readonly impostorOf?: string;
}

export interface PluginStatusBoard {
  status(): PluginStatus;
  /** A repeat of what stands already changes nothing and tells nobody. */
  become(next: Omit<PluginStatus, "since">): void;
  onChange(listener: (status: PluginStatus) => void): () => void;
  /** Rejects when aborted, or when the connection is closed. */
  whenReady(signal: AbortSignal): Promise<PluginFacts>;
}

/** Why a plugin waits before the first attempt to reach it has come to an end. */
export const notLookedAt = "the socket was not looked at yet";

const loud: ReadonlySet<PluginPhase> = new Set(["unhealthy", "quarantined"]);

export function createPluginStatusBoard(options: {
  readonly log: Logger;
  readonly clock: Clock;
  readonly plugin: () => string;
  /** The life of the connection. */
  readonly signal: AbortSignal;
}): PluginStatusBoard {
  const { log, clock, plugin, signal: life } = options;
  const changes = createNotifier();
  const listeners = createEmitter<[status: PluginStatus]>();
  let status: PluginStatus = { phase: "waiting", since: clock.now(), reason: notLookedAt };

  return {
    status: () => status,

    become(next) {
      const before = status;
      if (before.phase === "closed") return;
      if (next.phase === before.phase && next.reason === before.reason && next.facts === before.facts) return;
      status = { ...next, since: next.phase === before.phase ? before.since : clock.now() };
      if (next.phase !== before.phase || next.reason !== before.reason)
        log[loud.has(next.phase) ? "warn" : "info"](`plugin ${next.phase}`, {
          plugin: plugin(),
          reason: next.reason,
          before: before.phase,
        });
      changes.notify();
      listeners.tell(status);
      if (next.phase === "closed") listeners.clear();
    },

    onChange: listeners.on,

    async whenReady(signal) {
      for (;;) {
        throwIfAborted(signal);
        throwIfAborted(life);
        const version = changes.version();
        if (status.phase === "ready" && status.facts !== undefined) return status.facts;
        const either = linkSignals(signal, life);
        try {
          await changes.wait(version, either.signal);
        } finally {
          either.dispose();
        }
      }
    },
  };
}
