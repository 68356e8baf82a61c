/**
 * Which socket may serve which plugin, kept over restarts. A plugin's name is bound to the place of its first incarnation: the path of
 * the socket, its owner, and the owner of its directory.
 *
 * B1 A binding is on disk before the first call that it allows.
 * B2 A binding changes by a person's word only: nothing that a plugin does moves its name.
 * B3 A file that cannot be read is never taken for an empty one: an empty one would bind each name to the next socket that announces it.
 */
import { createNotifier } from "@holdfast/shared/async/notifier";
import { readDurableText, writeDurableText } from "@holdfast/shared/durable-text";

export interface SocketPlace {
  /** Without links. */
  readonly socket: string;
  readonly uid: number;
  readonly gid: number;
  readonly directoryUid: number;
  readonly directoryGid: number;
}

export interface PluginBindings {
  /** Undefined: the name was never seen. Empty: no socket that was merely found may have it. */
  of(plugin: string): readonly SocketPlace[] | undefined;
  bind(plugin: string, places: readonly SocketPlace[]): void;
  version(): number;
  /** Resolves when a binding changed after `version`; rejects when aborted. */
  changed(version: number, signal: AbortSignal): Promise<number>;
}

const fileFormat = 1;

/** Throws when the file is damaged, or of a later version (B3). */
export function openPluginBindings(file: string): PluginBindings {
  const text = readDurableText(file);
  const bound = text === undefined ? new Map<string, readonly SocketPlace[]>() : parseBindings(text, file);
  const changes = createNotifier();
  return {
    of: (plugin) => bound.get(plugin),
    bind(plugin, places) {
      const plugins = Object.fromEntries([...bound, [plugin, places] as const]);
      writeDurableText(file, `${JSON.stringify({ format: fileFormat, plugins }, undefined, 1)}\n`); // B1
      bound.set(plugin, places);
      changes.notify();
    },
    version: changes.version,
    changed: (version, signal) => changes.wait(version, signal),
  };
}

export const samePlace = (a: SocketPlace, b: SocketPlace): boolean =>
  a.socket === b.socket &&
  a.uid === b.uid &&
  a.gid === b.gid &&
  a.directoryUid === b.directoryUid &&
  a.directoryGid === b.directoryGid;

export const showPlace = ({ socket, uid, gid, directoryUid, directoryGid }: SocketPlace): string =>
  `${socket} (user ${uid}, group ${gid}; directory of user ${directoryUid}, group ${directoryGid})`;

function parseBindings(text: string, file: string): Map<string, readonly SocketPlace[]> {
  const value = parsed(text);
  const { format, plugins } = isObject(value) ? value : {};
  if (typeof format === "number" && format > fileFormat)
    throw new Error(`${file} has format ${format}, this version knows ${fileFormat}: run the version that wrote it`);
  if (format !== fileFormat || !isObject(plugins)) throw damaged(file);
  return new Map(
    Object.entries(plugins).map(([plugin, places]) => {
      if (!Array.isArray(places) || !places.every(isPlace)) throw damaged(file);
      return [plugin, places] as const;
    }),
  );
}

const damaged = (file: string): Error =>
  new Error(
    `${file} is damaged: which sockets the names of plugins are bound to is not known. Restore it; or look at the sockets in the plugin directory, stop what does not belong there, and remove the file: each name is then bound to the first socket that announces it`,
  );

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isPlace = (value: unknown): value is SocketPlace =>
  isObject(value) &&
  typeof value["socket"] === "string" &&
  ["uid", "gid", "directoryUid", "directoryGid"].every((field) => Number.isSafeInteger(value[field]));
