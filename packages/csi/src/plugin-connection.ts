/**
 * One socket path and whatever plugin lives there: waits for it, connects, learns who it is, watches it, and begins anew
 * whenever it goes away or is replaced, without anybody asking.
 *
 * P1 Every incarnation of the socket is a new connection; no call reaches one whose facts were not read.
 * P2 What the first incarnation was called, the later ones have to be called too (S3 of the session).
 * P3 A call that changes something and has no answer stays open over incarnations, and over all instances that share `openCalls`, until it
 * is answered or its own connection ends.
 */
import { createBackoff } from "@holdfast/model/backoff";
import type { Clock } from "@holdfast/shared/async/clock";
import { linkSignals, throwIfAborted } from "@holdfast/shared/async/signals";
import type { Link } from "@holdfast/shared/grpc/link/link";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Tracing } from "@holdfast/shared/tracing";
import { type CallsUnderWay, countCalls } from "./calls-under-way.ts";
import type { PluginFacts, PluginRole } from "./capabilities.ts";
import { type CallAccess, type CsiCaller, createCsiCaller } from "./csi-caller.ts";
import { type CallReport, createCsiExchange } from "./csi-exchange.ts";
import type { CsiMethod } from "./methods.ts";
import { createOpenCalls, type OpenCalls } from "./open-calls.ts";
import type { Impostor } from "./plugin-admission.ts";
import { openPluginChannel, type PluginChannel } from "./plugin-channel.ts";
import {
  type PluginPin,
  type PluginSession,
  type SessionEnd,
  type SessionReport,
  startPluginSession,
} from "./plugin-session.ts";
import { createPluginStatusBoard, type PluginStatus } from "./plugin-status.ts";
import { createSocketWatch } from "./socket-watch.ts";
import type { CsiTransport } from "./transport.ts";

export interface PluginConnection extends CsiCaller {
  readonly socketPath: string;
  /** Whose socket it is, in the words of whoever runs the plugin; the path itself when nobody said. */
  readonly instanceId: string;
  readonly role: PluginRole;
  /** Who it has to be, as far as anybody knows. */
  pin(): PluginPin;
  readonly underWay: Pick<CallsUnderWay, "list" | "awaited" | "idle">;
  status(): PluginStatus;
  /** Called after every change; the returned function takes it back. */
  onChange(listener: (status: PluginStatus) => void): () => void;
  /** Rejects when aborted or closed. */
  whenReady(signal: AbortSignal): Promise<PluginFacts>;
  /** Ends all of it; calls in flight end as unknown. */
  close(): Promise<void>;
}

export interface PluginConnectionOptions {
  readonly socketPath: string;
  readonly role: PluginRole;
  readonly log: Logger;
  readonly tracing: Tracing;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** What the plugin has to call itself, when that is known beforehand. */
  readonly expectedName?: string | undefined;
  readonly expectedNodeId?: string | undefined;
  readonly instanceId?: string | undefined;
  /** On which the plugin runs, for spans; none when nobody said. */
  readonly node?: string | undefined;
  /** Calls at once; more are refused. */
  readonly maxInFlight?: number | undefined;
  readonly onCall?: ((report: CallReport) => void) | undefined;
  /** Whether the plugin of this incarnation may have the name that it gives; every name is everybody's when absent. */
  readonly admit?: ((plugin: string, incarnation: string) => Promise<Impostor | undefined>) | undefined;
  /** The open calls of all instances with that name; its own when absent. */
  readonly openCallsOf?: ((plugin: string) => OpenCalls) | undefined;
  readonly healthIntervalMs?: number;
  readonly random?: () => number;
}

const connectTimeoutMs = 2_000;

export function createPluginConnection(options: PluginConnectionOptions): PluginConnection {
  const { socketPath, role, tracing, clock, onCall, random = Math.random, healthIntervalMs = 10_000 } = options;
  const { instanceId = socketPath, node, maxInFlight, admit } = options;
  const log = options.log.child({ socket: socketPath, role });
  const life = linkSignals(options.signal);
  const watch = createSocketWatch({ socketPath, clock, signal: life.signal });
  let pin: PluginPin = { name: options.expectedName, nodeId: options.expectedNodeId };
  /** Of the facts as they were last read. */
  const denied = new Set<CsiMethod>();
  let current:
    | { readonly channel: PluginChannel; readonly transport: CsiTransport; readonly session: PluginSession }
    | undefined;
  const ownOpenCalls = createOpenCalls({ clock });
  const openCallsOf = options.openCallsOf ?? (() => ownOpenCalls);

  const plugin = (): string => pin.name ?? socketPath;
  const exchange = createCsiExchange({ plugin, instance: instanceId, node, tracing, clock, onCall });
  const board = createPluginStatusBoard({ log, clock, plugin, signal: life.signal });

  const onReport = (report: SessionReport): void => {
    if (report.phase === "ready") {
      if (report.facts !== board.status().facts) denied.clear();
      pin = { name: report.facts.name, nodeId: report.facts.nodeInfo?.nodeId ?? pin.nodeId }; // P2
      board.become(report);
      return;
    }
    const { facts } = board.status();
    board.become(report.phase === "quarantined" || facts === undefined ? report : { ...report, facts });
  };

  /** P3. The name is known by the time of the first call: its facts were read (P1). */
  const guarded = (channel: PluginChannel, incarnation: string): CsiTransport => {
    // A connection that was closed here proves nothing of the process.
    const listener = { socketPath, incarnation, gone: () => channel.isGone() && !life.signal.aborted };
    return {
      unary: (...call) =>
        openCallsOf(plugin())
          .over(channel, listener, (words) => underWay.left(words))
          .unary(...call),
      stream: channel.stream,
    };
  };

  /** P1: of the incarnation whose facts were read. */
  const successor = async (): Promise<Link> => {
    await board.whenReady(life.signal);
    const link = current?.channel.link();
    if (link === undefined) throw new Error("the plugin went away again");
    return link;
  };

  /** One incarnation from contact to loss; undefined when there was no contact. */
  const serve = async (incarnation: string): Promise<SessionEnd | undefined> => {
    const limits = maxInFlight === undefined ? {} : { maxInFlight };
    const channel = openPluginChannel({ socketPath, clock, successor, ...limits });
    const until = linkSignals(life.signal);
    const onClose = (): void => channel.close();
    life.signal.addEventListener("abort", onClose, { once: true });
    try {
      if (!(await channel.connect(connectTimeoutMs))) return undefined;
      // After a hang it stays unhealthy until it answers again.
      if (board.status().phase !== "unhealthy") board.become({ phase: "connecting" });
      const { signal } = until;
      const session = startPluginSession({
        channel,
        exchange,
        role,
        pin,
        clock,
        random,
        signal,
        healthIntervalMs,
        report: onReport,
        admit: admit && ((plugin) => admit(plugin, incarnation)),
      });
      current = { channel, transport: guarded(channel, incarnation), session };
      void replaced(incarnation, signal).then(until.abort, () => undefined);
      return await session.ended;
    } finally {
      current = undefined;
      until.abort(new DOMException("the session is over", "AbortError"));
      life.signal.removeEventListener("abort", onClose);
      channel.retire();
    }
  };

  /** P1. A socket that was merely unlinked may still be served; one that was replaced belongs to somebody else. */
  const replaced = async (incarnation: string, signal: AbortSignal): Promise<Error> => {
    for (;;) {
      const version = watch.version();
      const socket = watch.current();
      if (socket.kind === "unfit") return new DOMException(`the socket ${socket.reason}`, "AbortError");
      if (socket.kind === "present" && socket.incarnation !== incarnation)
        return new DOMException("another process took the socket's place", "AbortError");
      await watch.changed(version, signal);
    }
  };

  /** Until the time is up, or the socket changed after `version`. */
  const pause = async (ms: number, version: number): Promise<void> => {
    const until = linkSignals(life.signal);
    const stopTimer = clock.timer(ms, () => until.abort(new DOMException("time is up", "TimeoutError")));
    try {
      await watch.changed(version, until.signal);
    } catch {
      throwIfAborted(life.signal);
    } finally {
      stopTimer();
      until.dispose();
    }
  };

  const drive = async (): Promise<never> => {
    const redial = createBackoff({ baseMs: 50, capMs: 500, random, resetAfterMs: 1_000 });
    for (;;) {
      const version = watch.version();
      const socket = await watch.refresh();
      throwIfAborted(life.signal);
      if (socket.kind !== "present") {
        const reason = socket.kind === "absent" ? "no socket yet" : `the socket ${socket.reason}`;
        board.become({ phase: "waiting", reason });
        await watch.changed(version, life.signal);
        continue;
      }
      const started = clock.monotonic();
      const end = await serve(socket.incarnation);
      throwIfAborted(life.signal);
      redial.held(clock.monotonic() - started);
      if (end === undefined)
        board.become({
          phase: "waiting",
          reason: "nobody listens on the socket: left over from a process that is gone",
        });
      else board.become({ phase: end.kind === "hung" ? "unhealthy" : "connecting", reason: end.reason });
      await pause(redial.next(), watch.version());
    }
  };

  const finished = drive().catch((error: unknown) => {
    if (!life.signal.aborted) log.error("plugin connection failed", { plugin: plugin(), error });
    board.become({ phase: "closed", reason: life.signal.aborted ? "closed" : String(error) });
    life.abort(error);
  });

  const access = (): CallAccess => {
    const { phase, facts, reason } = board.status();
    if (phase === "ready" && facts !== undefined && current !== undefined)
      return { facts, transport: current.transport, denied };
    const why = reason === undefined ? "" : ` (${reason})`;
    return { closed: `plugin ${plugin()} is ${phase}${why}; the call is made when it is ready` };
  };

  const caller = createCsiCaller({
    plugin,
    exchange,
    access,
    onMissedDeadline: (transport) => {
      if (current?.transport === transport) current.session.suspect();
    },
    onUnimplemented: (method) => {
      denied.add(method);
      current?.session.doubt();
    },
  });

  const underWay = countCalls(caller);

  return {
    ...underWay.caller,
    underWay,
    socketPath,
    instanceId,
    role,
    pin: () => pin,
    status: board.status,
    onChange: board.onChange,
    whenReady: board.whenReady,
    async close() {
      life.abort(new DOMException("the plugin connection was closed", "AbortError"));
      await finished;
    },
  };
}
