/** One controller: register, then heartbeats, then again whenever it no longer knows us. Ends only when aborted. */
import { backoffDelay } from "@holdfast/shared/async/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals } from "@holdfast/shared/async/signals";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type {
  AcknowledgeRequest,
  AcknowledgeResponse,
  DeepPartial,
  HeartbeatRequest,
  HeartbeatResponse,
  RegisterRequest,
  RegisterResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import type { Logger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import {
  type AgentSelf,
  acknowledgeMessage,
  heartbeatMessage,
  lateReleases,
  registerMessages,
} from "./controller-link-messages.ts";
import type { VolumeRef } from "./domain/types.ts";
import type { Ledger } from "./ports.ts";

/** The calls of ControllerLinkService that the link makes. */
export interface PeerClient {
  register(requests: AsyncIterable<DeepPartial<RegisterRequest>>, options: PeerCall): Promise<RegisterResponse>;
  heartbeat(request: DeepPartial<HeartbeatRequest>, options: PeerCall): Promise<HeartbeatResponse>;
  acknowledge(request: DeepPartial<AcknowledgeRequest>, options: PeerCall): Promise<AcknowledgeResponse>;
}

export interface PeerCall {
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
}

export interface ControllerPeerOptions {
  readonly address: string;
  readonly self: AgentSelf;
  readonly ledger: Ledger;
  readonly dial: (address: string) => PeerClient;
  readonly heartbeatMs: number;
  readonly reconnectMaxMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly onRegistered: (address: string, response: RegisterResponse) => Promise<void>;
  readonly onState: (state: NodeState) => void;
  /** A controller has the release on record. */
  readonly forget: (ref: VolumeRef, claimUid: string) => Promise<void>;
}

const callMs = 10_000;
const jitter = 0.2;

export function createControllerPeer(options: ControllerPeerOptions): { run(): Promise<never> } {
  const { address, self, ledger, dial, clock, random, signal, reconnectMaxMs, onRegistered, onState } = options;
  const log = options.log.child({ controller: address });
  const client = dial(address);
  const tracing = createTracing("holdfast-node-agent");
  const call: PeerCall = { signal, deadlineMs: callMs };
  let period = options.heartbeatMs;
  let failures = 0;
  let told = 0;
  /** Forgotten by the controller, waiting for the turn of their volumes: a volume that hangs holds up no heartbeat. */
  const forgetting = new Set<string>();
  /** Losses that this controller has on record. */
  const toldLost = new Map<string, number>();

  const failed = async (what: string, error: unknown): Promise<void> => {
    signal.throwIfAborted();
    const detail = isHoldfastError(error) ? { reason: error.reason, detail: error.message } : { error };
    // Once per outage; the heartbeats that follow say the same.
    if (failures === 0) log.warn(`${what} was not answered; it is tried again`, detail);
    await clock.sleep(backoffDelay(failures, { baseMs: 200, capMs: reconnectMaxMs }, random), signal);
    failures += 1;
  };

  /** Answers when the controller knows us. */
  const register = async (): Promise<void> => {
    for (;;) {
      try {
        const revision = self.fingerprints.revision();
        const response = await client.register(registerMessages(self, ledger, revision), call);
        await onRegistered(address, response);
        const asked = response.heartbeatInterval;
        if (asked !== undefined) period = Math.max(100, Number(asked.seconds) * 1000 + asked.nanos / 1e6);
        told = revision;
        failures = 0;
        return;
      } catch (error) {
        await failed("a registration", error);
      }
    }
  };

  /** Answers whether the controller still knows us. */
  const heartbeat = async (): Promise<boolean> => {
    const beat = heartbeatMessage(self, ledger, told);
    if (beat === undefined) return false;
    const beatOnce = () => client.heartbeat(beat.message, call);
    // A beat that only says "I am here" is part of no trace.
    const news = (beat.message.changed?.length ?? 0) + (beat.message.removed?.length ?? 0);
    const { known, nodeEpoch, state } = await (news === 0
      ? beatOnce()
      : tracing.span("tell what plugins changed", { attributes: { "holdfast.node": self.node } }, beatOnce));
    failures = 0;
    if (!known || Number(nodeEpoch) !== ledger.agent().nodeEpoch) return false;
    onState(state);
    told = beat.revision;
    return true;
  };

  /** Releases whose answer may have reached nobody, until they come back as forgotten. */
  const acknowledge = async (): Promise<void> => {
    const late = lateReleases(ledger)
      .filter(({ dead }) => !forgetting.has(dead.claimUid))
      .slice(0, 500);
    const lost = self
      .lost()
      .filter(({ claimUid, since }) => toldLost.get(claimUid) !== since)
      .slice(0, 500);
    if (late.length + lost.length === 0 || ledger.damage !== undefined) return;
    const { forgottenClaimUids } = await client.acknowledge(acknowledgeMessage(self, ledger, late, lost), call);
    for (const { claimUid, since } of lost) toldLost.set(claimUid, since);
    for (const claimUid of forgottenClaimUids) {
      const one = late.find(({ dead }) => dead.claimUid === claimUid);
      if (one === undefined) continue;
      forgetting.add(claimUid);
      void options
        .forget(one.ref, claimUid)
        .catch((error: unknown) => {
          if (!signal.aborted) log.warn("a release that is known everywhere stays in the journal", { error });
        })
        .finally(() => forgetting.delete(claimUid));
    }
  };

  /** The period, or less when a plugin changed: that is told at once. */
  const pause = async (): Promise<void> => {
    const until = linkSignals(signal);
    const cancel = clock.timer(period * (1 + jitter * (2 * random() - 1)), () => until.abort(undefined));
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
    async run() {
      for (;;) {
        await register();
        toldLost.clear();
        let known = true;
        while (known) {
          // A beat that failed is tried again after its own wait.
          if (failures === 0) await pause();
          try {
            known = await heartbeat();
            if (known) await acknowledge();
          } catch (error) {
            await failed("a heartbeat", error);
          }
        }
      }
    },
  };
}
