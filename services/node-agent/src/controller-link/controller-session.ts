/**
 * What the agent tells one controller over one stream: the registration, then what changes, then releases and losses until the
 * controller has them on record.
 *
 * Session-1 A report is sent only where something changed. A fenced node asks again at each look, as no controller tells it of the
 * end of the fence.
 * Session-2 A refused registration is repeated on the same stream; an unanswered one ends the stream, and so does one that shows another
 * installation, whose controller may have taken this agent for its own.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type {
  AcknowledgeRequest,
  AcknowledgeResponse,
  DeepPartial,
  RegisterRequest,
  RegisterResponse,
  ReportRequest,
  ReportResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import type { Logger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import { newsKey } from "../domain/claim-news.ts";
import type { VolumeRef } from "../domain/types.ts";
import type { Ledger } from "../ports.ts";
import type { Outage } from "./outage.ts";
import {
  type AgentSelf,
  acknowledgeMessage,
  type HealthFacts,
  lateReleases,
  registerMessage,
  reportMessage,
} from "./session-messages.ts";

/** The calls of AgentLinkService that a session makes. */
export interface SessionClient {
  register(request: DeepPartial<RegisterRequest>, options: LinkCall): Promise<RegisterResponse>;
  report(request: DeepPartial<ReportRequest>, options: LinkCall): Promise<ReportResponse>;
  acknowledge(request: DeepPartial<AcknowledgeRequest>, options: LinkCall): Promise<AcknowledgeResponse>;
}

export interface LinkCall {
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
}

/** What all sessions of an agent share. */
export interface SessionParts {
  readonly self: AgentSelf;
  readonly ledger: Ledger;
  readonly reconnectMaxMs: number;
  /** Between two looks at what has to be told; a plugin that changes is told at once. */
  readonly lookMs?: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly onRegistered: (controller: string, response: RegisterResponse) => Promise<void>;
  readonly onState: (state: NodeState) => void;
  readonly quarantined: () => boolean;
  /** Rises when an order showed that the controllers know something newer. */
  readonly doubts: () => number;
  /** A controller has the release on record. */
  readonly forget: (ref: VolumeRef, claimUid: string) => Promise<void>;
}

export interface ControllerSessionOptions extends SessionParts {
  readonly controller: string;
  readonly client: SessionClient;
  readonly outage: Outage;
  readonly log: Logger;
  /** Aborted when the stream has ended, or when another stream has taken its place. */
  readonly signal: AbortSignal;
}

export interface ControllerSession {
  /** Resolves when the controller knows this agent. Rejects when the stream is of no use. */
  register(): Promise<void>;
  /** Tells changes. Ends only by rejecting. */
  tell(): Promise<never>;
}

const callMs = 10_000;
const jitter = 0.2;
/** Numbers that change with each claim are told at most this often. */
const countsMs = 5_000;

export function createControllerSession(options: ControllerSessionOptions): ControllerSession {
  const { controller, client, self, ledger, clock, random, signal, outage, log, lookMs = 1_000 } = options;
  const tracing = createTracing("holdfast-node-agent");
  const call: LinkCall = { signal, deadlineMs: callMs };
  let failures = 0;
  let told = 0;
  let toldHealth: { readonly facts: HealthFacts; readonly at: number; readonly news: string } | undefined;
  let settledDoubts = options.doubts();
  /** Forgotten by the controller, waiting for the turn of their volumes: a volume that hangs delays no report. */
  const forgetting = new Set<string>();
  /** Losses that this controller has on record. */
  const toldLost = new Map<string, number>();

  const failed = async (what: string, error: unknown): Promise<void> => {
    signal.throwIfAborted();
    outage.tell(`${what} was not answered; it is tried again`, error);
    await clock.sleep(backoffDelay(failures, { baseMs: 200, capMs: options.reconnectMaxMs }, random()), signal);
    failures += 1;
  };

  const answered = (): void => {
    failures = 0;
    outage.over();
  };

  const register = async (): Promise<void> => {
    for (;;) {
      const doubts = options.doubts();
      try {
        const { message, revision } = registerMessage(self, ledger);
        await options.onRegistered(controller, await client.register(message, call));
        told = revision;
        toldHealth = undefined;
        settledDoubts = doubts;
        toldLost.clear();
        answered();
        return;
      } catch (error) {
        if (isHoldfastError(error) && (error.kind === "deadline" || error.reason === "CLUSTER_MISMATCH")) throw error; // Session-2
        await failed("a registration", error);
      }
    }
  };

  /** Session-1 */
  const isDue = (health: HealthFacts, news: string): boolean =>
    self.fingerprints.revision() !== told ||
    options.doubts() !== settledDoubts ||
    options.quarantined() ||
    toldHealth === undefined ||
    toldHealth.news !== news ||
    !sameHealth(toldHealth.facts, health) ||
    (!sameCounts(toldHealth.facts, health) && clock.monotonic() - toldHealth.at >= countsMs);

  /** Answers whether the controller still knows this agent. */
  const report = async (): Promise<boolean> => {
    const health = self.health();
    const claims = self.news();
    const news = newsKey(claims);
    if (!isDue(health, news)) return true;
    const doubts = options.doubts();
    const report = reportMessage(self, ledger, told, health, claims);
    if (report === undefined) return false;
    const send = () => client.report(report.message, call);
    // A report without a plugin is part of no trace.
    const plugins = (report.message.changed?.length ?? 0) + (report.message.removed?.length ?? 0);
    const { known, nodeEpoch, state } = await (plugins === 0
      ? send()
      : tracing.span("tell what plugins changed", { attributes: { "holdfast.node": self.node } }, send));
    answered();
    if (!known || Number(nodeEpoch) !== ledger.agent().nodeEpoch) return false;
    options.onState(state);
    told = report.revision;
    toldHealth = { facts: health, at: clock.monotonic(), news };
    settledDoubts = doubts;
    return true;
  };

  /** Releases whose answer may have been lost, until they come back as forgotten. */
  const acknowledge = async (): Promise<void> => {
    if (ledger.damage !== undefined) return;
    const late = lateReleases(ledger)
      .filter(({ dead }) => !forgetting.has(dead.claimUid))
      .slice(0, 500);
    const lost = self
      .lost()
      .filter(({ claimUid, since }) => toldLost.get(claimUid) !== since)
      .slice(0, 500);
    if (late.length + lost.length === 0) return;
    const { forgottenClaimUids } = await client.acknowledge(acknowledgeMessage(self, ledger, late, lost), call);
    answered();
    for (const { claimUid, since } of lost) toldLost.set(claimUid, since);
    for (const claimUid of forgottenClaimUids) {
      const one = late.find(({ dead }) => dead.claimUid === claimUid);
      if (one === undefined) continue;
      forgetting.add(claimUid);
      void options
        .forget(one.ref, claimUid)
        .catch((error: unknown) => {
          if (!signal.aborted) log.warn("a release that every controller knows stays in the journal", { error });
        })
        .finally(() => forgetting.delete(claimUid));
    }
  };

  /** Until the next look, or until a plugin changes. */
  const pause = async (): Promise<void> => {
    const until = linkSignals(signal);
    const cancel = clock.timer(lookMs * (1 + jitter * (2 * random() - 1)), () => until.abort(undefined));
    try {
      await self.fingerprints.wait(told, until.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!until.signal.aborted) throw error;
    } finally {
      cancel();
      until.dispose();
    }
  };

  return {
    register,
    async tell() {
      for (let unknown = 0; ; ) {
        let known = true;
        try {
          known = await report();
          if (known) await acknowledge();
        } catch (error) {
          await failed("a report", error);
          continue;
        }
        if (known) {
          unknown = 0;
          await pause();
          continue;
        }
        await register();
        await clock.sleep(backoffDelay(unknown, { baseMs: 200, capMs: options.reconnectMaxMs }, random()), signal);
        unknown += 1;
      }
    },
  };
}

const sameHealth = (a: HealthFacts, b: HealthFacts): boolean =>
  a.notAccepting === b.notAccepting && a.blocked === b.blocked;

const sameCounts = (a: HealthFacts, b: HealthFacts): boolean =>
  a.publications === b.publications && a.unacknowledged === b.unacknowledged;
