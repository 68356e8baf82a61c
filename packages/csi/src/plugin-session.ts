/**
 * The life of one connection to a plugin: probe until it is ready, read who it is, then keep an eye on it until the
 * connection ends.
 *
 * S1 Nothing but probes and questions of identity is sent before the facts of this very connection were read.
 * S2 `ready: false` is a plugin that starts, for however long; it is never called unhealthy, nor restarted for it.
 * S3 A plugin that comes back as somebody else (name or node id) gets no call: our volumes' secrets were meant for the other.
 * S4 A call that ran into its deadline, and a short probe that did too: the connection hangs, and is given up.
 * S5 A plugin that answered any call while its probe was waiting lives: one that is busy is not one that hangs.
 * S6 A plugin whose name is bound to another socket gets no call either, until a person says that it is its own.
 */
import { createBackoff } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals, reasonOf } from "@holdfast/shared/async/signals";
import { callPolicy } from "./call-policy.ts";
import type { PluginFacts, PluginRole } from "./capabilities.ts";
import type { CsiExchange } from "./csi-exchange.ts";
import { emptyRequest } from "./messages.ts";
import type { CallFailure } from "./outcome.ts";
import type { Impostor } from "./plugin-admission.ts";
import type { PluginChannel } from "./plugin-channel.ts";
import { type Ask, readPluginFacts, rereadCapabilities } from "./plugin-facts.ts";

export type SessionReport =
  | { readonly phase: "initialising"; readonly reason: string }
  | { readonly phase: "unhealthy"; readonly reason: string }
  | { readonly phase: "quarantined"; readonly reason: string; readonly impostorOf?: string }
  | { readonly phase: "ready"; readonly facts: PluginFacts };

/** Who the plugin has to be, as far as anybody knows. */
export interface PluginPin {
  readonly name: string | undefined;
  readonly nodeId: string | undefined;
}

export interface PluginSessionOptions {
  readonly channel: PluginChannel;
  readonly exchange: CsiExchange;
  readonly role: PluginRole;
  readonly pin: PluginPin;
  readonly clock: Clock;
  readonly random: () => number;
  readonly signal: AbortSignal;
  readonly healthIntervalMs: number;
  readonly report: (report: SessionReport) => void;
  /** S6; every name is everybody's when absent. */
  readonly admit?: ((plugin: string) => Promise<Impostor | undefined>) | undefined;
}

export interface SessionEnd {
  /** `hung`: it accepts calls and answers none (S4); `over`: the connection is gone, or was given up from above. */
  readonly kind: "hung" | "over";
  readonly reason: string;
}

export interface PluginSession {
  /** Resolves when the session is over. Never rejects. */
  readonly ended: Promise<SessionEnd>;
  /** A call ran into its deadline: probe now. */
  suspect(): void;
  /** The plugin did not do what it announced: its facts are read again, soon, and calls wait for that. */
  doubt(): void;
}

const shortProbeMs = 1_000;

type Health = "ready" | "starting" | "silent" | CallFailure;

export function startPluginSession(options: PluginSessionOptions): PluginSession {
  const { channel, exchange, role, pin, clock, random, healthIntervalMs, report, admit } = options;
  const life = linkSignals(options.signal, channel.lost);
  const wake = createNotifier();
  let suspected = false;
  /** The facts are known, every capability of them, and nothing spoke against them since. */
  let complete = false;
  /** How often something spoke against the facts. */
  let doubts = 0;

  const ask: Ask = (method) =>
    exchange.call(channel, method, emptyRequest(method), {
      signal: life.signal,
      deadlineMs: callPolicy[method].deadlineMs,
      sensitive: [],
    });

  const probe = async (deadlineMs: number): Promise<Health> => {
    const request = emptyRequest("Probe");
    const answer = await exchange.call(channel, "Probe", request, { signal: life.signal, deadlineMs, sensitive: [] });
    life.signal.throwIfAborted();
    // "If the field is not set, the plugin is ready."
    if (answer.outcome === "done") return answer.value.ready === false ? "starting" : "ready";
    return answer.failure.code === "DEADLINE_EXCEEDED" ? "silent" : answer.failure;
  };

  /** S4: the first miss may be a slow moment; a second one, asked with little patience, is an answer. */
  const health = async (): Promise<Health> => {
    const before = channel.answered();
    const said = await probeTwice();
    return said === "silent" && channel.answered() > before ? "ready" : said; // S5
  };

  const probeTwice = async (): Promise<Health> => {
    if (!suspected) {
      const first = await probe(callPolicy.Probe.deadlineMs);
      if (first !== "silent") return first;
    }
    suspected = false;
    return probe(shortProbeMs);
  };

  const pause = async (ms: number): Promise<void> => {
    if (suspected) return;
    const version = wake.version();
    const stopTimer = clock.timer(ms, () => wake.notify());
    try {
      await wake.wait(version, life.signal);
    } finally {
      stopTimer();
    }
  };

  /** S6. A text: why it cannot be told just now. */
  const admitted = async (name: string): Promise<Impostor | string | undefined> => {
    try {
      return await admit?.(name);
    } catch (error) {
      return `whether the name ${name} is its own cannot be told or kept: ${error instanceof Error ? error.message : String(error)}`;
    }
  };

  const run = async (): Promise<SessionEnd> => {
    const starting = createBackoff({ baseMs: 50, capMs: 1_000, random });
    const ailing = createBackoff({ baseMs: 500, capMs: 10_000, random });
    const incomplete = createBackoff({ baseMs: 1_000, capMs: 60_000, random });
    let known: PluginFacts | undefined;
    let settled = doubts;
    for (;;) {
      // With growing gaps: a plugin that announces what it never does is not asked about it all the time.
      if (doubts !== settled) await pause(incomplete.next());
      settled = doubts;
      const now = await health();
      if (now === "silent") return { kind: "hung", reason: "the plugin answers no probe; it is connected to anew" };
      if (now === "starting") {
        report({ phase: "initialising", reason: "the plugin says that it is not ready yet" }); // S2
        await pause(starting.next());
        continue;
      }
      if (now !== "ready") {
        report({ phase: "unhealthy", reason: `Probe answered ${now.code}: ${now.message}` });
        await pause(ailing.next());
        continue;
      }
      if (known === undefined || !complete) {
        const reading = await readPluginFacts(role, ask); // S1
        life.signal.throwIfAborted();
        if ("failure" in reading) {
          const { method, code, message } = reading.failure;
          report({ phase: "unhealthy", reason: `${method} answered ${code}: ${message}` });
          await pause(ailing.next());
          continue;
        }
        const stranger = strangerIn(pin, known, reading.facts);
        if (stranger !== undefined) {
          report({ phase: "quarantined", reason: stranger }); // S3
          await never(life.signal);
        }
        const impostor = known === undefined ? await admitted(reading.facts.name) : undefined;
        life.signal.throwIfAborted();
        if (typeof impostor === "string") {
          report({ phase: "unhealthy", reason: impostor });
          await pause(ailing.next());
          continue;
        }
        if (impostor !== undefined) {
          report({ phase: "quarantined", reason: impostor.reason, impostorOf: reading.facts.name }); // S6
          await impostor.changed(life.signal);
          continue;
        }
        known = reading.facts;
        complete = reading.complete && doubts === settled;
      } else {
        incomplete.reset();
        known = await rereadCapabilities(known, ask);
        life.signal.throwIfAborted();
      }
      ailing.reset();
      starting.reset();
      report({ phase: "ready", facts: known });
      // Jittered, so that the plugins of a host, and of many hosts that started together, are not asked all at once.
      const period = healthIntervalMs * (0.9 + 0.2 * random());
      await pause(complete ? period : Math.min(incomplete.next(), period));
    }
  };

  const ended = run()
    .catch((error: unknown): SessionEnd => {
      const reason = life.signal.aborted ? reasonOf(life.signal).message : `internal error: ${String(error)}`;
      return { kind: "over", reason };
    })
    .finally(() => life.dispose());

  return {
    ended,
    suspect() {
      suspected = true;
      wake.notify();
    },
    doubt() {
      complete = false;
      doubts += 1;
      wake.notify();
    },
  };
}

function strangerIn(pin: PluginPin, before: PluginFacts | undefined, now: PluginFacts): string | undefined {
  const name = before?.name ?? pin.name;
  const nodeId = before?.nodeInfo?.nodeId ?? pin.nodeId;
  if (name !== undefined && now.name !== name) return `the plugin calls itself ${now.name}, and was ${name} before`;
  if (nodeId !== undefined && now.nodeInfo !== undefined && now.nodeInfo.nodeId !== nodeId)
    return `the plugin gives the node id ${now.nodeInfo.nodeId}, and gave ${nodeId} before`;
  return undefined;
}

/** Until the connection ends, and then rejects. */
function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(reasonOf(signal));
    else signal.addEventListener("abort", () => reject(reasonOf(signal)), { once: true });
  });
}
