/**
 * Every plugin that shows a socket in one directory: `<any>.sock`, or `<any>/csi.sock`. A socket that appears gets a
 * connection of its own; nobody has to announce it. This is how plugins run under systemd or compose are found.
 *
 * D1 One connection per socket path, for as long as the path is in use; it outlives restarts of the plugin.
 * D2 Of several instances with one plugin name the newest that is ready is the current one; the older stay connected.
 * D3 An instance that was added by name stays until it is removed by name, whatever becomes of its socket.
 * D4 A plugin whose name is bound to another socket is listed, as quarantined, and is never the current one.
 * D5 An open call of one instance holds its subject for all instances of that name: a controller names a node and not the socket there.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { linkSignals, throwIfAborted } from "@holdfast/shared/async/signals";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Tracing } from "@holdfast/shared/tracing";
import type { CallNotes } from "./call-notes.ts";
import type { PluginRole } from "./capabilities.ts";
import type { CallReport } from "./csi-exchange.ts";
import { watchDirectory } from "./directory-wake.ts";
import { createOpenCalls, type OpenCalls, type Quiesced, type StandingCall } from "./open-calls.ts";
import type { PluginAdmission } from "./plugin-admission.ts";
import { createPluginConnection, type PluginConnection } from "./plugin-connection.ts";
import { notLookedAt } from "./plugin-status.ts";
import { createSocketScan } from "./socket-scan.ts";

/** What is known of an instance beside what it says itself. */
export interface KnownInstance {
  readonly role: PluginRole;
  readonly expectedName?: string | undefined;
  readonly expectedNodeId?: string | undefined;
  readonly instanceId?: string | undefined;
  readonly maxInFlight?: number | undefined;
}

export interface PluginDirectory {
  /** Every instance, oldest first, whatever its phase. */
  list(): readonly PluginConnection[];
  /** The current instance: the newest that is ready. */
  get(pluginName: string): PluginConnection | undefined;
  /** An instance whose socket is, or will be, at a path outside of the directory (D3). One that is there is answered. */
  add(socketPath: string, known: KnownInstance): PluginConnection;
  /** Whether the instance at that path was added by name. */
  isAdded(socketPath: string): boolean;
  /** Closes it: its calls in flight end as unknown. */
  remove(socketPath: string): Promise<void>;
  /** Called when an instance came, went, or changed its status. */
  onChange(listener: (connection: PluginConnection) => void): () => void;
  /**
   * Resolves when the directory was read, and every socket in it is known to be a plugin's or nobody's: what is listed then
   * is what there is. Rejects when aborted or closed.
   */
  settled(signal: AbortSignal): Promise<void>;
  /** Rejects when aborted or closed. */
  whenReady(pluginName: string, signal: AbortSignal): Promise<PluginConnection>;
  /** As of OpenCalls, over all instances of that name, those that are gone among them (D5). */
  quiesce(pluginName: string, ...asked: Parameters<OpenCalls["quiesce"]>): Promise<Quiesced>;
  /** Of all instances, those that are gone among them: calls without an answer of the plugin, and calls of which nobody knows the end. */
  openCalls(): readonly PluginCall[];
  close(): Promise<void>;
}

export interface PluginCall extends StandingCall {
  readonly plugin: string;
}

export interface PluginDirectoryOptions {
  readonly dir: string;
  readonly role: PluginRole;
  /** On which the directory is, for spans. */
  readonly node?: string | undefined;
  /** What is known of a socket in the directory; undefined: only the role. */
  readonly describe?: ((socketPath: string) => KnownInstance | undefined) | undefined;
  readonly log: Logger;
  readonly tracing: Tracing;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onCall?: ((report: CallReport) => void) | undefined;
  /** D4; every name is everybody's when absent. */
  readonly admission?: Pick<PluginAdmission, "admit"> | undefined;
  readonly healthIntervalMs?: number;
  /** How long a path without a socket is kept in mind, with the name that its plugin has to have when it is back. */
  readonly forgetAfterMs?: number;
  /** No call leaves whose order is of a lower generation, however long it has waited. */
  readonly lowestGen?: (() => number) | undefined;
  /** What is kept of the plugin's calls beyond the life of this process. */
  readonly notesOf?: ((plugin: string) => CallNotes) | undefined;
}

const pollMs = 500;

interface Instance {
  readonly connection: PluginConnection;
  /** D3 */
  readonly added: boolean;
  absentSince: number | undefined;
}

export function createPluginDirectory(options: PluginDirectoryOptions): PluginDirectory {
  const {
    dir,
    role,
    node,
    describe,
    log,
    tracing,
    clock,
    onCall,
    admission,
    healthIntervalMs = 10_000,
    forgetAfterMs = 60_000,
  } = options;
  const life = linkSignals(options.signal);
  const changes = createNotifier();
  const listeners = createEmitter<[connection: PluginConnection]>();
  /** In the order of their appearance. */
  const instances = new Map<string, Instance>();
  const watchedDirs = new Map<string, AbortController>();
  /** D5 */
  const openCalls = new Map<string, OpenCalls>();
  const openCallsOf = (plugin: string): OpenCalls => {
    const { lowestGen, notesOf } = options;
    const known = openCalls.get(plugin) ?? createOpenCalls({ clock, lowestGen, notes: notesOf?.(plugin) });
    openCalls.set(plugin, known);
    return known;
  };
  const disputed = new Map<string, string>();

  const nameOf = (connection: PluginConnection): string | undefined => connection.status().facts?.name;

  const readyOnes = (name: string): PluginConnection[] =>
    [...instances.values()]
      .map(({ connection }) => connection)
      .filter((connection) => connection.status().phase === "ready" && nameOf(connection) === name);

  const tell = (connection: PluginConnection): void => {
    noteDispute(connection);
    changes.notify();
    listeners.tell(connection);
  };

  /** D2, said once for each set of sockets. */
  const noteDispute = (connection: PluginConnection): void => {
    const name = nameOf(connection);
    if (name === undefined) return;
    const sockets = readyOnes(name).map(({ socketPath }) => socketPath);
    const set = sockets.length > 1 ? sockets.join(" ") : "";
    if ((disputed.get(name) ?? "") === set) return;
    disputed.set(name, set);
    if (set !== "")
      log.warn("several sockets serve one plugin; the newest is used: stop the others unless an upgrade is going on", {
        plugin: name,
        sockets,
        current: sockets.at(-1),
      });
  };

  const open = (socketPath: string, known: KnownInstance, added: boolean): PluginConnection => {
    const { signal } = life;
    const connection = createPluginConnection({
      ...known,
      node,
      socketPath,
      log,
      tracing,
      clock,
      signal,
      onCall,
      admit: admission && ((plugin, incarnation) => admission.admit({ plugin, socketPath, incarnation, added })),
      healthIntervalMs,
      openCallsOf,
    });
    instances.set(socketPath, { connection, added, absentSince: undefined });
    connection.onChange(() => tell(connection));
    tell(connection);
    return connection;
  };

  const reconcile = (found: readonly string[]): void => {
    for (const socketPath of found) {
      const instance = instances.get(socketPath);
      if (instance === undefined) open(socketPath, describe?.(socketPath) ?? { role }, false);
      else instance.absentSince = undefined;
    }
    const here = new Set(found);
    for (const [socketPath, instance] of instances) {
      if (instance.added || here.has(socketPath)) continue; // D3
      instance.absentSince ??= clock.monotonic();
      const { phase } = instance.connection.status();
      // A plugin may unlink its socket and serve on; only one that is gone as well is forgotten.
      if (phase !== "waiting" || clock.monotonic() - instance.absentSince < forgetAfterMs) continue;
      instances.delete(socketPath); // D1
      void instance.connection.close().then(() => tell(instance.connection));
    }
  };

  const scan = createSocketScan(dir, (subdirs) => {
    for (const subdir of subdirs) {
      if (watchedDirs.has(subdir)) continue;
      const until = new AbortController();
      watchedDirs.set(subdir, until);
      watchDirectory({ dir: subdir, clock, signal: AbortSignal.any([until.signal, life.signal]), pollMs, wake });
    }
    for (const [subdir, until] of watchedDirs) {
      if (subdirs.includes(subdir)) continue;
      until.abort(new DOMException("the directory is gone", "AbortError"));
      watchedDirs.delete(subdir);
    }
  });

  let wasRead = false;
  /** Why it could not be read at the last look, which was said. */
  let unreadable = "";
  const failed = (error: unknown): void => {
    if (unreadable !== String(error)) log.error("the plugin directory cannot be read", { dir, error });
    unreadable = String(error);
  };
  let scanning: Promise<void> | undefined;
  let again = false;
  const look = async (): Promise<void> => {
    do {
      again = false;
      const found = await scan();
      if (life.signal.aborted) return;
      unreadable = "";
      if (found !== undefined) reconcile(found);
      if (!wasRead) {
        wasRead = true;
        changes.notify();
      }
    } while (again);
  };

  /** One scan at a time; a wake during it may have come too late for it. */
  function wake(): void {
    if (scanning !== undefined) {
      again = true;
      return;
    }
    scanning = look()
      .catch(failed)
      .finally(() => {
        scanning = undefined;
      });
  }

  watchDirectory({ dir, clock, signal: life.signal, pollMs, wake });

  const get = (name: string): PluginConnection | undefined => readyOnes(name).at(-1);

  const isSettled = (): boolean =>
    wasRead &&
    [...instances.values()].every(({ connection }) => {
      const { phase, reason } = connection.status();
      return phase !== "connecting" && reason !== notLookedAt;
    });

  const until = async <T>(answer: () => T | undefined, signal: AbortSignal): Promise<T> => {
    for (;;) {
      throwIfAborted(signal);
      throwIfAborted(life.signal);
      const version = changes.version();
      const found = answer();
      if (found !== undefined) return found;
      const either = linkSignals(signal, life.signal);
      try {
        await changes.wait(version, either.signal);
      } finally {
        either.dispose();
      }
    }
  };

  return {
    list: () => [...instances.values()].map(({ connection }) => connection),
    get,
    add: (socketPath, known) => instances.get(socketPath)?.connection ?? open(socketPath, known, true),
    async remove(socketPath) {
      const instance = instances.get(socketPath);
      if (instance === undefined) return;
      instances.delete(socketPath);
      await instance.connection.close();
      tell(instance.connection);
    },
    isAdded: (socketPath) => instances.get(socketPath)?.added === true,
    onChange: listeners.on,
    settled: async (signal) => void (await until(() => (isSettled() ? true : undefined), signal)),
    whenReady: (name, signal) => until(() => get(name), signal),
    quiesce: (name, ...asked) => openCallsOf(name).quiesce(...asked), // D5
    openCalls: () => [...openCalls].flatMap(([plugin, calls]) => calls.standing().map((call) => ({ plugin, ...call }))),
    async close() {
      life.abort(new DOMException("the plugin directory was closed", "AbortError"));
      await scanning;
      await Promise.all([...instances.values()].map(({ connection }) => connection.close()));
      listeners.clear();
    },
  };
}
