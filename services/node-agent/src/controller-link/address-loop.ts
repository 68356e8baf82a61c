/**
 * One controller address: a stream is open to it at any moment, or about to be. Ends when the address is not wanted any more and its
 * stream has ended.
 *
 * Loop-1 A stream that another one replaces ends only after the other is registered, and when nothing is under way on it.
 * Loop-2 After a stream that held, the first retry comes at once; every other one after a random wait.
 */
import { backoffDelay } from "@holdfast/model/backoff";
import { linkSignals, waitFor } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { ControllerAddress } from "./controller-addresses.ts";
import { type ControllerSession, createControllerSession, type SessionParts } from "./controller-session.ts";
import type { ControllerStream, OpenControllerStream } from "./controller-stream.ts";
import { createOutage } from "./outage.ts";

export interface AddressLoopOptions extends SessionParts {
  readonly address: ControllerAddress;
  readonly open: OpenControllerStream;
  /** The address is still one of a controller. */
  readonly wanted: () => boolean;
  /** The controller is not there. */
  readonly onAway: () => void;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface AddressLoop {
  run(): Promise<void>;
  /** The stream that is registered, if there is one. */
  registered(): ControllerStream | undefined;
}

interface Leg {
  readonly stream: ControllerStream;
  readonly session: ControllerSession;
  readonly ended: Promise<{ readonly why: unknown }>;
  /** Resolves when the controller asks for another stream in place of this one. */
  readonly reconnect: Promise<{ readonly jitterMs: number; readonly reason: string }>;
  isOpen(): boolean;
  /** Nothing more is told over it. */
  hush(): void;
  isHushed(): boolean;
}

/** A stream that ended sooner has not held: who accepts and drops is not dialled in a loop. */
const heldMs = 1_000;
const drainMs = 30_000;
const drainLookMs = 50;

export function createAddressLoop(options: AddressLoopOptions): AddressLoop {
  const { address, open, wanted, onAway, clock, random, reconnectMaxMs, signal } = options;
  const log = options.log.child({ controller: address.name });
  const outage = createOutage(log);
  let current: Leg | undefined;
  let attempts = 0;

  const openLeg = (): Leg => {
    const told = linkSignals(signal);
    const reconnect = Promise.withResolvers<{ readonly jitterMs: number; readonly reason: string }>();
    const stream = open(address, reconnect.resolve);
    let isOpen = true;
    const hush = () => told.abort(new DOMException("the stream is left", "AbortError"));
    const ended = stream.ended.then((why) => {
      isOpen = false;
      hush();
      return { why };
    });
    const client = stream.client;
    const parts = { ...options, controller: address.name, client, outage, log, signal: told.signal };
    const session = createControllerSession(parts);
    return {
      stream,
      session,
      ended,
      reconnect: reconnect.promise,
      isOpen: () => isOpen,
      hush,
      isHushed: () => told.signal.aborted,
    };
  };

  /** Answers why the stream is of no use, or undefined when the controller knows the agent. */
  const registerOn = async (leg: Leg): Promise<{ readonly why: unknown } | undefined> => {
    const registering = leg.session.register().then(
      () => undefined,
      (why: unknown) => ({ why }),
    );
    // The end of a stream says more than the call that ended with it.
    const failure = await waitFor(Promise.race([registering, leg.ended]), signal);
    if (failure === undefined) return undefined;
    const ending = leg.stream.end("the controller did not register the agent");
    const ended = leg.isOpen() ? failure : await leg.ended;
    await ending;
    return ended;
  };

  const tellOver = ({ session, stream, isHushed }: Leg): void => {
    session.tell().catch((error: unknown) => {
      if (isHushed()) return;
      void stream.end(error instanceof Error ? error.message : String(error));
    });
  };

  /** Loop-1 */
  const leave = async ({ hush, stream, isOpen }: Leg): Promise<void> => {
    hush();
    const until = clock.monotonic() + drainMs;
    while (isOpen() && !stream.idle() && clock.monotonic() < until) await clock.sleep(drainLookMs, signal);
    await stream.end("another stream has taken its place");
  };

  const backOff = async (): Promise<void> => {
    await clock.sleep(backoffDelay(attempts, { baseMs: 200, capMs: reconnectMaxMs }, random()), signal);
    attempts += 1;
  };

  /** Answers when another stream is to be opened. */
  const keep = async (leg: Leg): Promise<void> => {
    const since = clock.monotonic();
    const first = await waitFor(Promise.race([leg.ended, leg.reconnect]), signal);
    if ("reason" in first && wanted()) {
      log.info("the controller asks for another stream", { reason: first.reason });
      attempts = 0;
      const pause = clock.sleep(first.jitterMs * random(), signal).then(() => undefined);
      if ((await Promise.race([pause, leg.ended])) === undefined) return;
    }
    const { why } = await waitFor(leg.ended, signal);
    outage.tell("the stream to the controller ended; it is opened again", why);
    if (clock.monotonic() - since < heldMs) return await backOff();
    attempts = 0; // Loop-2
  };

  return {
    registered: () => (current?.isOpen() === true ? current.stream : undefined),
    async run() {
      while (wanted()) {
        const leg = openLeg();
        const failure = await registerOn(leg);
        if (failure === undefined) {
          const former = current;
          current = leg;
          tellOver(leg);
          if (former !== undefined) leave(former).catch(() => undefined);
          await keep(leg);
          continue;
        }
        outage.tell("the controller is not reached; it is tried again", failure.why);
        onAway();
        await backOff();
      }
      await current?.ended;
    },
  };
}
