/**
 * The agent's side of the link: keeps a stream to every controller, registers over each, and tells what changes. The liveness of the
 * node is all that depends on it; no mount is made or taken away because a controller is silent.
 *
 * K1 No order is taken before one registration was answered and its node epoch journalled (I4).
 * K2 The node epoch never goes back, and who answers with an older one lifts no quarantine.
 * K3 Each address of a controller has its own loop: one that hangs delays no other.
 * K4 A node epoch that no controller gives is not taken: it would make every true one stale.
 * K5 A node belongs to one installation, the first that answered: two that are dialled at once both take an agent without a journal for theirs.
 */
import { createNotifier } from "@holdfast/shared/async/notifier";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { RegisterResponse } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import type { Logger } from "@holdfast/shared/log/logger";
import { leapOfGeneration } from "../domain/epoch-steps.ts";
import type { Failpoint } from "../failpoints.ts";
import { type AddressLoop, createAddressLoop } from "./address-loop.ts";
import { type ControllerAddress, createControllerAddresses, type ResolveHost } from "./controller-addresses.ts";
import type { SessionParts } from "./controller-session.ts";
import type { ControllerStream, OpenControllerStream } from "./controller-stream.ts";

export interface ControllerLinkOptions
  extends Pick<SessionParts, "self" | "ledger" | "reconnectMaxMs" | "lookMs" | "clock" | "random" | "forget"> {
  /** As the operator wrote them. */
  readonly controllers: readonly string[];
  /** Undefined: names are dialled as they stand. */
  readonly resolve: ResolveHost | undefined;
  readonly open: OpenControllerStream;
  readonly log: Logger;
  readonly failpoint: Failpoint;
  /** Aborted: no stream is opened any more, and nothing is told; those that are open stay until stop(). */
  readonly signal: AbortSignal;
}

/** Where a controller can be asked now. */
export interface RegisteredController {
  readonly address: string;
  readonly client: ControllerStream["client"];
}

export interface ControllerLink {
  /** A registration was answered since the start. */
  registered(): boolean;
  /** The controllers say that the node was fenced and is not clean yet. */
  quarantined(): boolean;
  /** An order showed that controllers know another node epoch, or another state: they are asked. */
  doubt(): void;
  /** With whom a stream is registered. */
  controllers(): readonly RegisteredController[];
  /** Rejects when aborted. */
  whenRegistered(signal: AbortSignal): Promise<void>;
  /** Ends the streams. */
  stop(): Promise<void>;
}

const isFenced = (state: NodeState): boolean =>
  state === NodeState.NODE_STATE_QUARANTINED || state === NodeState.NODE_STATE_FENCING;

export function createControllerLink(options: ControllerLinkOptions): ControllerLink {
  const { ledger, log, failpoint, signal } = options;
  const loops = new Map<string, { readonly loop: AddressLoop; readonly running: Promise<void> }>();
  const streams = new Set<ControllerStream>();
  const registrations = createNotifier();
  let wanted: ReadonlySet<string> = new Set();
  let quarantined = false;
  let doubts = 0;

  const onState = (state: NodeState): void => {
    const next = isFenced(state);
    if (next !== quarantined)
      log.warn(next ? "the node is fenced: no permit is taken" : "the node is no longer fenced");
    quarantined = next;
  };

  /** K2: one answer after the other, each compared with what the one before it left. */
  let settled: Promise<void> = Promise.resolve();
  const onRegistered = (controller: string, response: RegisterResponse): Promise<void> => {
    const settling = settled.then(() => take(controller, response));
    settled = settling.catch(() => undefined);
    return settling;
  };

  const take = async (controller: string, response: RegisterResponse): Promise<void> => {
    const { clusterUid, state } = response;
    const nodeEpoch = Number(response.nodeEpoch);
    const known = ledger.agent();
    if (!Number.isSafeInteger(nodeEpoch) || leapOfGeneration(known.nodeEpoch, nodeEpoch) !== undefined) {
      // K4
      const message = `the controller at ${controller} answered with node epoch ${nodeEpoch}, and ${known.nodeEpoch} is known here: no controller gives such a number; look at which program listens there`;
      throw new HoldfastError({ kind: "precondition", reason: "EPOCH_LEAP", message, metadata: { controller } });
    }
    if (known.clusterUid !== "" && clusterUid !== known.clusterUid) {
      // K5
      const message = `the controller at ${controller} belongs to installation ${clusterUid}, and this agent to ${known.clusterUid}: take it out of HOLDFAST_CONTROLLERS`;
      throw new HoldfastError({
        kind: "precondition",
        reason: "CLUSTER_MISMATCH",
        message,
        metadata: { cluster_uid: known.clusterUid, wanted: clusterUid },
      });
    }
    // Before its node epoch counts: no permit slips in between.
    if (isFenced(state)) onState(state);
    failpoint("agent.register.before-journal");
    if (nodeEpoch < known.nodeEpoch) {
      // K2
      log.error("a controller answered with an older node epoch: its store has lost writes", {
        controller,
        node_epoch: known.nodeEpoch,
        answered: nodeEpoch,
      });
    } else if (nodeEpoch !== known.nodeEpoch || clusterUid !== known.clusterUid) {
      if (ledger.damage === undefined) await ledger.commitAgent({ type: "node-epoch", nodeEpoch, clusterUid }); // K1
    }
    failpoint("agent.register.after-journal");
    if (nodeEpoch >= known.nodeEpoch) onState(state);
    registrations.notify();
    log.info("registered", { controller, node_epoch: nodeEpoch, cluster: clusterUid });
  };

  const open: OpenControllerStream = (address, onReconnect) => {
    const stream = options.open(address, onReconnect);
    streams.add(stream);
    void stream.ended.then(() => streams.delete(stream));
    return stream;
  };

  /** K3 */
  const follow = (address: ControllerAddress): void => {
    const { target } = address;
    if (loops.has(target) || signal.aborted) return;
    const loop = createAddressLoop({
      ...options,
      address,
      open,
      wanted: () => wanted.has(target),
      onAway: addresses.lookAgain,
      onRegistered,
      onState,
      quarantined: () => quarantined,
      doubts: () => doubts,
    });
    // In a promise, so that an address that makes no sense is a line in the log and not the end of the link.
    const running = Promise.resolve()
      .then(() => loop.run())
      .catch((error: unknown) => {
        if (signal.aborted) return;
        const told = isHoldfastError(error) ? { reason: error.reason, detail: error.message } : { error };
        log.error("the link to a controller ended", { controller: address.name, ...told });
      })
      .finally(() => {
        loops.delete(target);
      });
    loops.set(target, { loop, running });
  };

  const addresses = createControllerAddresses({
    ...options,
    onAddresses(known) {
      wanted = new Set(known.map(({ target }) => target));
      for (const address of known) follow(address);
    },
  });
  const looking = addresses.run();

  return {
    registered: () => registrations.version() > 0,
    quarantined: () => quarantined,
    doubt() {
      doubts += 1;
    },
    controllers: () =>
      [...loops].flatMap(([address, { loop }]) => {
        const client = loop.registered()?.client;
        return client === undefined ? [] : [{ address, client }];
      }),
    async whenRegistered(until) {
      await registrations.wait(0, until);
    },
    async stop() {
      await looking;
      await Promise.all([...loops.values()].map(({ running }) => running));
      await Promise.all([...streams].map((stream) => stream.end("the agent is stopping")));
    },
  };
}
