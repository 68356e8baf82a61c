import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createPluginDirectory, type PluginDirectory } from "@holdfast/csi/plugin-directory";
import { startTinyPlugin, type TinyPlugin, type TinyPluginOptions } from "@holdfast/csi/testing/tiny-plugin";
import { type Clock, systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import { onTestFinished } from "vitest";
import type { HostedInstance } from "../domain/plugin-registry.ts";
import type { VolumeState } from "../domain/types.ts";
import { createHostedPlugins, type HostedPlugins } from "../plugins/host/hosted-plugins.ts";
import { createInstanceBoard, type InstanceBoard } from "../plugins/host/instance-board.ts";
import { createPluginHost, type PluginHost } from "../plugins/host/plugin-host.ts";
import { createSocketDirs, type SocketDirs } from "../plugins/host/socket-dirs.ts";
import type { Ledger } from "../ports.ts";
import type { Journal } from "../volumes/journal.ts";
import { createLedger } from "../volumes/ledger.ts";
import { createJournalDisk, openMemoryJournal } from "./memory-journal.ts";

/** The plugin host of one agent's life, with real sockets and a journal that outlives it. */
export interface HostLife {
  readonly ledger: Ledger;
  readonly host: PluginHost;
  readonly plugins: HostedPlugins;
  readonly board: InstanceBoard;
  readonly directory: PluginDirectory;
  readonly dirs: SocketDirs;
  close(): Promise<void>;
}

export interface HostRig {
  readonly dir: string;
  readonly rootDir: string;
  /** Aborted when the test is over. */
  readonly signal: AbortSignal;
  live(options?: LifeOptions): Promise<HostLife>;
  journal(): Journal;
  plugin(life: HostLife, allocation: string, options?: Partial<TinyPluginOptions>): Promise<TinyPlugin>;
}

export interface LifeOptions {
  readonly clock?: Clock;
  readonly journal?: Journal;
  /** What the host takes for mounted. */
  readonly volumes?: () => Iterable<VolumeState>;
  readonly healthIntervalMs?: number;
  readonly hosting?: boolean;
}

export const hosted = (allocation: string, changes: Partial<HostedInstance> = {}): HostedInstance => ({
  plugin: "tiny.example.com",
  allocation,
  role: "node",
  socketDir: "/csi",
  publishDir: "/local/csi",
  healthTimeoutMs: 30_000,
  hostFilesystem: false,
  restartInUse: false,
  ...changes,
});

export async function startHostRig(): Promise<HostRig> {
  const dir = await mkdtemp(path.join(tmpdir(), "hfh-"));
  const over = new AbortController();
  const disk = createJournalDisk("journal-1");
  const ends: (() => Promise<void>)[] = [];
  onTestFinished(async () => {
    over.abort(new DOMException("the test is over", "AbortError"));
    for (const end of ends.reverse()) await end();
    await rm(dir, { recursive: true, force: true });
  });
  const rootDir = path.join(dir, "m");
  const staticDir = path.join(dir, "static");
  await mkdir(staticDir);

  return {
    dir,
    rootDir,
    signal: over.signal,
    journal: () => openMemoryJournal(disk),
    async live({
      clock = systemClock,
      journal = openMemoryJournal(disk),
      volumes,
      healthIntervalMs = 200,
      hosting = true,
    } = {}) {
      const life = new AbortController();
      const log = createMemoryLogger();
      const ledger = createLedger(journal);
      const { signal } = life;
      const directory = createPluginDirectory({
        dir: staticDir,
        role: "node",
        log,
        tracing: createTracing("test"),
        clock,
        signal,
        healthIntervalMs,
      });
      const dirs = createSocketDirs({ base: path.join(dir, "h"), ownUid: process.getuid?.() ?? 0, log });
      const seen = { ...ledger, ...(volumes === undefined ? {} : { volumes }) };
      const host = createPluginHost({ ledger: seen, directory, dirs, hosting, clock, log, signal });
      await host.restore();
      const plugins = createHostedPlugins({ directory, host, rootDir, statics: { publishDirOf: () => undefined } });
      const board = createInstanceBoard({ directory, host });
      let closed = false;
      const close = async (): Promise<void> => {
        if (closed) return;
        closed = true;
        board.close();
        plugins.close();
        await host.close();
        await directory.close();
        life.abort(new DOMException("the life is over", "AbortError"));
      };
      ends.push(close);
      return { ledger, host, plugins, board, directory, dirs, close };
    },
    async plugin(life, allocation, options = {}) {
      const plugin = await startTinyPlugin({ socketPath: life.dirs.socketOf(allocation), ...options });
      ends.push(() => plugin.kill());
      return plugin;
    },
  };
}

/** What lies in the base of hosted plugins, but the file that names who has it. */
export const socketDirsIn = async (base: string): Promise<string[]> =>
  (await readdir(base).catch(() => [])).filter((name) => name !== "lock").sort();

/** Stands on a socket before another one, and counts who comes. */
export async function countConnections(socketPath: string, behind: string): Promise<() => number> {
  let count = 0;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    count += 1;
    const upstream = connect(behind);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(from);
      from.on("error", () => undefined);
      from.on("close", () => to.destroy());
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  onTestFinished(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of open) socket.destroy();
    await closed;
  });
  return () => count;
}

export const until = async (holds: () => boolean): Promise<void> => {
  for (let look = 0; look < 2_000 && !holds(); look += 1) await new Promise((resolve) => setTimeout(resolve, 5));
  if (!holds()) throw new Error("it did not come about");
};
