/** Every instance on this host, hosted or merely found, as those see it who list and watch them. */
import type { PluginConnection } from "@holdfast/csi/plugin-connection";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import type { PluginFingerprint } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { entryOfConnection, isCurrent } from "../../domain/plugin-registry.ts";
import { instanceFingerprint } from "../fingerprint.ts";
import { createOrderedFeed, type OrderedFeed } from "./ordered-feed.ts";
import type { PluginHost } from "./plugin-host.ts";

export interface InstanceView {
  /** Sorts and tells apart. */
  readonly key: string;
  /** Empty for a socket that never said whose it is. */
  readonly plugin: string;
  /** Empty for an instance that nobody prepared. */
  readonly allocation: string;
  readonly current: boolean;
  readonly fingerprint: PluginFingerprint;
  /** 0: it was never ready, or nobody prepared it. */
  readonly registeredAt: number;
}

export interface InstanceChange {
  readonly gone: boolean;
  readonly instance: InstanceView;
}

export interface InstanceBoard {
  /** By key. */
  list(): readonly InstanceView[];
  readonly feed: OrderedFeed<InstanceChange>;
  close(): void;
}

export function createInstanceBoard(options: {
  readonly directory: Pick<PluginDirectory, "list" | "onChange">;
  readonly host: Pick<PluginHost, "registry" | "onChange">;
}): InstanceBoard {
  const { directory, host } = options;
  const feed = createOrderedFeed<InstanceChange>();
  let known = new Map<string, InstanceView>();

  const viewOf = (connection: PluginConnection): InstanceView => {
    const entry = entryOfConnection(host.registry(), connection);
    const fingerprint = instanceFingerprint(connection, entry !== undefined);
    const { plugin } = fingerprint;
    return {
      key: `${plugin}\t${connection.instanceId}`,
      plugin,
      allocation: entry === undefined ? "" : connection.instanceId,
      current: entry === undefined ? isNewest(connection, plugin) : isCurrent(host.registry(), entry),
      fingerprint,
      registeredAt: entry?.registeredAt ?? 0,
    };
  };

  /** Of those that nobody prepared, the last one that is ready; hosted ones come first. */
  const isNewest = (connection: PluginConnection, plugin: string): boolean => {
    if (host.registry().entries.some(({ instance, order }) => order > 0 && instance.plugin === plugin)) return false;
    const others = directory.list().filter((it) => it.role === connection.role && it.status().facts?.name === plugin);
    return others.findLast((it) => it.status().phase === "ready") === connection;
  };

  const look = (): void => {
    const seen = new Map(
      directory
        .list()
        .map((connection) => viewOf(connection))
        .map((view) => [view.key, view]),
    );
    for (const [key, instance] of known) if (!seen.has(key)) feed.publish({ gone: true, instance });
    for (const [key, instance] of seen)
      if (!sameView(known.get(key), instance)) feed.publish({ gone: false, instance });
    known = seen;
  };

  look();
  const stops = [directory.onChange(look), host.onChange(look)];
  return {
    list: () => [...known.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
    feed,
    close() {
      for (const stop of stops) stop();
      feed.end();
    },
  };
}

/** When it was looked at is no part of what was seen. */
function sameView(a: InstanceView | undefined, b: InstanceView): boolean {
  const bare = (view: InstanceView) => ({
    ...view,
    fingerprint: {
      ...view.fingerprint,
      maxVolumes: String(view.fingerprint.maxVolumes),
      fingerprintedAt: undefined,
      blocked: view.fingerprint.blocked?.message,
    },
  });
  return a !== undefined && JSON.stringify(bare(a)) === JSON.stringify(bare(b));
}
