/**
 * The agent's side of the link: registers with every controller, sends heartbeats to each, and tells of releases that
 * nobody has heard of. Liveness is all that depends on it; no mount is made or taken away because a controller is silent.
 *
 * K1 No order is taken before one registration was answered and its node epoch journalled (I4).
 * K2 The node epoch never goes back, and who answers with an older one lifts no quarantine.
 * K3 Each controller has its own loop: one that hangs delays no other.
 * K4 A node epoch that no controller gives is not taken: it would make every true one stale.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { RegisterResponse } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import type { Logger } from "@holdfast/shared/log/logger";
import type { AgentSelf } from "./controller-link-messages.ts";
import { createControllerPeer, type PeerClient } from "./controller-link-peer.ts";
import { leapOfGeneration } from "./domain/epoch-steps.ts";
import type { VolumeRef } from "./domain/types.ts";
import type { Failpoint } from "./failpoints.ts";
import type { Ledger } from "./ports.ts";

export interface ControllerLinkOptions {
  readonly controllers: readonly string[];
  readonly self: AgentSelf;
  readonly ledger: Ledger;
  readonly dial: (address: string) => PeerClient;
  readonly heartbeatMs: number;
  readonly reconnectMaxMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly failpoint: Failpoint;
  readonly forget: (ref: VolumeRef, claimUid: string) => Promise<void>;
  readonly signal: AbortSignal;
}

export interface ControllerLink {
  /** A registration was answered since the start. */
  registered(): boolean;
  /** The controllers say that the node was fenced and is not clean yet. */
  quarantined(): boolean;
  /** Of every controller that is known. */
  addresses(): readonly string[];
  /** Rejects when aborted. */
  whenRegistered(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
}

const isFenced = (state: NodeState): boolean =>
  state === NodeState.NODE_STATE_QUARANTINED || state === NodeState.NODE_STATE_FENCING;

export function createControllerLink(options: ControllerLinkOptions): ControllerLink {
  const { controllers, ledger, log, failpoint, signal } = options;
  const peers = new Map<string, Promise<void>>();
  const registrations = createNotifier();
  let quarantined = false;

  const onState = (state: NodeState): void => {
    const next = isFenced(state);
    if (next !== quarantined)
      log.warn(next ? "the node is fenced: no permit is taken" : "the node is no longer fenced");
    quarantined = next;
  };

  /** K2: one answer after the other, each compared with what the one before it left. */
  let settled: Promise<void> = Promise.resolve();
  const onRegistered = (address: string, response: RegisterResponse): Promise<void> => {
    const settling = settled.then(() => take(address, response));
    settled = settling.catch(() => undefined);
    return settling;
  };

  const take = async (address: string, response: RegisterResponse): Promise<void> => {
    const { clusterUid, state, controllerAddresses } = response;
    const nodeEpoch = Number(response.nodeEpoch);
    const known = ledger.agent();
    if (!Number.isSafeInteger(nodeEpoch) || leapOfGeneration(known.nodeEpoch, nodeEpoch) !== undefined) {
      // K4
      const message = `the controller at ${address} answered with node epoch ${nodeEpoch}, and ${known.nodeEpoch} is known here: no controller gives such a number; look at which program listens there`;
      throw new HoldfastError({ kind: "precondition", reason: "EPOCH_LEAP", message, metadata: { address } });
    }
    // Before its node epoch counts: no permit slips in between.
    if (isFenced(state)) onState(state);
    failpoint("agent.register.before-journal");
    if (nodeEpoch < known.nodeEpoch) {
      // K2
      log.error("a controller answered with an older node epoch: its store has lost writes", {
        controller: address,
        node_epoch: known.nodeEpoch,
        answered: nodeEpoch,
      });
    } else if (nodeEpoch !== known.nodeEpoch || clusterUid !== known.clusterUid) {
      if (ledger.damage === undefined) await ledger.commitAgent({ type: "node-epoch", nodeEpoch, clusterUid }); // K1
    }
    failpoint("agent.register.after-journal");
    if (nodeEpoch >= known.nodeEpoch) onState(state);
    registrations.notify();
    log.info("registered", { controller: address, node_epoch: nodeEpoch, cluster: clusterUid });
    for (const other of controllerAddresses) follow(other);
  };

  /** K3 */
  const follow = (address: string): void => {
    if (address === "" || peers.has(address) || signal.aborted) return;
    // In the promise, so that an address that makes no sense is a line in the log and not the end of the link.
    const running = Promise.resolve()
      .then(() => createControllerPeer({ ...options, address, onRegistered, onState }).run())
      .catch((error: unknown) => {
        if (signal.aborted) return;
        const told = isHoldfastError(error) ? { reason: error.reason, detail: error.message } : { error };
        log.error("the link to a controller ended", { controller: address, ...told });
      });
    peers.set(address, running);
  };

  for (const address of controllers) follow(address);

  return {
    registered: () => registrations.version() > 0,
    quarantined: () => quarantined,
    addresses: () => [...peers.keys()],
    async whenRegistered(until) {
      await registrations.wait(0, until);
    },
    async stop() {
      await Promise.all(peers.values());
    },
  };
}
