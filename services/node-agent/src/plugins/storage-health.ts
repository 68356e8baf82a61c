/**
 * What the plugins of this host say is wrong with the way to their storage (NodeGetStorageHealth), asked again and again.
 *
 * G1 One question at a time per plugin. G2 A question without an answer changes nothing; an instance that is gone, or that does not
 * offer the call any more, says nothing. G3 The secrets of the question are asked for each time anew, and kept nowhere; while they are
 * not to be had, the question is not asked.
 */
import { storageHealthEntries } from "@holdfast/csi/health";
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { StorageHealthEntry } from "@holdfast/model/health";
import type { Clock } from "@holdfast/shared/async/clock";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { every } from "@holdfast/shared/async/every";

type Asked = Pick<PluginConnection, "socketPath" | "status" | "call">;

export interface StorageHealth {
  /** Of the instance at that socket. */
  of(socketPath: string): readonly StorageHealthEntry[];
  /** Something is said that was not said before. */
  onChange(listener: () => void): () => void;
  round(): Promise<void>;
}

export interface StorageHealthOptions {
  readonly list: () => readonly Asked[];
  /** The secrets that the plugin wants with the question; undefined: they are not to be had now. */
  readonly secretsOf: (plugin: string) => Promise<Readonly<Record<string, string>> | undefined>;
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

const none: readonly StorageHealthEntry[] = [];

export function createStorageHealth({ list, secretsOf, deadlineMs, signal }: StorageHealthOptions): StorageHealth {
  const told = new Map<string, readonly StorageHealthEntry[]>();
  const changes = createEmitter();

  const hear = (socketPath: string, entries: readonly StorageHealthEntry[]): void => {
    if (JSON.stringify(told.get(socketPath) ?? none) === JSON.stringify(entries)) return;
    if (entries.length === 0) told.delete(socketPath);
    else told.set(socketPath, entries);
    changes.tell();
  };

  const ask = async (connection: Asked): Promise<void> => {
    const { facts, phase } = connection.status();
    if (facts?.node.GET_STORAGE_HEALTH === "no") return hear(connection.socketPath, none); // G2
    if (facts?.node.GET_STORAGE_HEALTH !== "yes" || phase !== "ready") return;
    const secrets = await secretsOf(facts.name);
    if (secrets === undefined) return; // G3
    const answer = await connection.call("NodeGetStorageHealth", { secrets }, { signal, deadlineMs });
    if (answer.outcome === "done") hear(connection.socketPath, storageHealthEntries(answer.value, secrets));
  };

  return {
    of: (socketPath) => told.get(socketPath) ?? none,
    onChange: changes.on,
    async round() {
      const all = list();
      const here = new Set(all.map(({ socketPath }) => socketPath));
      for (const socketPath of [...told.keys()]) if (!here.has(socketPath)) hear(socketPath, none); // G2
      await Promise.all(all.map(ask)); // G1
    },
  };
}

/** Rounds until the signal. */
export const keepAsking = (
  { round }: Pick<StorageHealth, "round">,
  { intervalMs, clock, signal }: { readonly intervalMs: number; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<never> => every(intervalMs, round, { clock, signal, jitter: 0.1, onError: () => undefined });
