/**
 * The fingerprints of this host's plugins, with a number that rises at each change, so that a controller is told only what
 * it does not have yet.
 */
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { createNotifier } from "@holdfast/shared/async/notifier";
import { PluginFingerprint } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { fingerprintOf } from "./fingerprint.ts";
import type { StorageHealth } from "./storage-health.ts";

export interface InstanceKey {
  readonly plugin: string;
  readonly instanceId: string;
}

export interface FingerprintBoard {
  revision(): number;
  all(): readonly PluginFingerprint[];
  /** Undefined when `since` is not a number of this board's: everything has to be told anew. */
  changes(
    since: number,
  ): { readonly changed: readonly PluginFingerprint[]; readonly removed: readonly InstanceKey[] } | undefined;
  /** Resolves when there is a later revision; rejects when aborted. */
  wait(since: number, signal: AbortSignal): Promise<number>;
  stop(): void;
}

interface Entry {
  readonly revision: number;
  /** Undefined once the instance is gone. */
  readonly fingerprint: PluginFingerprint | undefined;
  readonly key: InstanceKey;
}

/** A gone instance is remembered for so many changes; who is further behind registers again. */
const rememberedRemovals = 1000;

export function createFingerprintBoard(
  directory: Pick<PluginDirectory, "list" | "isAdded" | "onChange">,
  storage?: Pick<StorageHealth, "of" | "onChange">,
): FingerprintBoard {
  const entries = new Map<string, Entry>();
  const changes = createNotifier();
  let forgottenUpTo = 0;

  const next = (): number => changes.version() + 1;

  const look = (): void => {
    const seen = new Set<string>();
    const all = directory.list();
    for (const connection of all) {
      const { socketPath } = connection;
      const about = { hosted: directory.isAdded(socketPath), storage: storage?.of(socketPath) ?? [] };
      const fingerprint = fingerprintOf(connection, all, about);
      if (fingerprint === undefined) continue;
      const name = `${fingerprint.plugin} ${fingerprint.instanceId}`;
      seen.add(name);
      if (sameFingerprint(entries.get(name)?.fingerprint, fingerprint)) continue;
      const key = { plugin: fingerprint.plugin, instanceId: fingerprint.instanceId };
      entries.set(name, { revision: next(), fingerprint, key });
      changes.notify();
    }
    for (const [name, entry] of entries) {
      if (seen.has(name) || entry.fingerprint === undefined) continue;
      entries.set(name, { revision: next(), fingerprint: undefined, key: entry.key });
      changes.notify();
    }
    forget();
  };

  const forget = (): void => {
    const gone = [...entries].filter(([, entry]) => entry.fingerprint === undefined);
    for (const [name, entry] of gone.slice(0, Math.max(0, gone.length - rememberedRemovals))) {
      entries.delete(name);
      forgottenUpTo = Math.max(forgottenUpTo, entry.revision);
    }
  };

  look();
  const stops = [directory.onChange(look), storage?.onChange(look)];
  const living = (): PluginFingerprint[] => [...entries.values()].flatMap(({ fingerprint }) => fingerprint ?? []);

  return {
    revision: changes.version,
    all: living,
    changes(since) {
      if (since > changes.version() || since < forgottenUpTo) return undefined;
      const later = [...entries.values()].filter(({ revision }) => revision > since);
      return {
        changed: later.flatMap(({ fingerprint }) => fingerprint ?? []),
        removed: later.filter(({ fingerprint }) => fingerprint === undefined).map(({ key }) => key),
      };
    },
    wait: (since, signal) => changes.wait(since, signal),
    stop: () => {
      for (const stop of stops) stop?.();
    },
  };
}

/** When it was taken is no part of what it says. */
function sameFingerprint(a: PluginFingerprint | undefined, b: PluginFingerprint): boolean {
  if (a === undefined) return false;
  const bare = (one: PluginFingerprint) =>
    PluginFingerprint.encode({
      ...one,
      fingerprintedAt: undefined,
      blocked: one.blocked && { ...one.blocked, since: undefined },
    }).finish();
  return Buffer.compare(bare(a), bare(b)) === 0;
}
