/**
 * May the plugin that answers on a socket have the name that it gives? Asked once a connection, after the plugin said who it is and
 * before any other call: a plugin that is not admitted gets no secret.
 *
 * A1 A socket that was merely found has the name that is bound to its place, and no other place has that name.
 * A2 The operator's word (plugins.json) stands above a binding: a socket that is listed with an id is bound to that name, and the name is
 *    no other socket's. An entry without an id says nothing of a name.
 * A3 An instance that the owner of the directory added by itself is its own. Its name is no socket's that was merely found.
 */
import { lstat, realpath } from "node:fs/promises";
import path from "node:path";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { type PluginBindings, type SocketPlace, samePlace, showPlace } from "./plugin-bindings.ts";
import { isPluginName } from "./plugin-name.ts";
import { readOwnUid, readSocketState } from "./socket-state.ts";

/** A connection whose plugin has just said who it is. */
export interface Candidate {
  readonly plugin: string;
  readonly socketPath: string;
  /** Of the socket when the connection was made. */
  readonly incarnation: string;
  /** A3 */
  readonly added: boolean;
}

export interface Impostor {
  readonly reason: string;
  /** Resolves when the answer may be another one. */
  changed(signal: AbortSignal): Promise<unknown>;
}

export interface PluginAdmission {
  /** Undefined: the name is its own. Rejects when that cannot be found out, or cannot be kept. */
  admit(candidate: Candidate): Promise<Impostor | undefined>;
  /** A person's word: the plugin may have its name at this socket. Answers the places that the name is bound to now. */
  accept(word: AcceptWord): Promise<readonly SocketPlace[]>;
}

export interface AcceptWord {
  readonly plugin: string;
  readonly socketPath: string;
  readonly reason: string;
}

export interface PluginAdmissionOptions {
  readonly bindings: PluginBindings;
  /** The socket stands in plugins.json with this name as its id. */
  readonly listed?: ((socketPath: string, plugin: string) => boolean) | undefined;
  /** The socket that plugins.json gives this name, if it does. */
  readonly pinnedTo?: ((plugin: string) => string | undefined) | undefined;
  /** The command line that accepts a socket, for messages. */
  readonly acceptWith: (plugin: string, socketPath: string) => string;
  readonly log: Logger;
}

const maxReason = 1_024;

export function createPluginAdmission(options: PluginAdmissionOptions): PluginAdmission {
  const { bindings, listed = () => false, pinnedTo = () => undefined, acceptWith, log } = options;

  const bind = (plugin: string, places: readonly SocketPlace[], why: string): undefined => {
    bindings.bind(plugin, places);
    log.info("the name of a plugin is bound to its socket", { plugin, sockets: places.map(showPlace), why });
  };

  const judge = (plugin: string, socketPath: string, place: SocketPlace): string | undefined => {
    const known = bindings.of(plugin);
    if (listed(socketPath, plugin)) {
      const others = known?.filter(({ socket }) => socket !== place.socket) ?? [];
      return known?.some((one) => samePlace(one, place)) ? undefined : bind(plugin, [...others, place], "plugins.json");
    }
    const pinned = pinnedTo(plugin); // A2
    if (pinned !== undefined)
      return `${showPlace(place)} announces plugin ${plugin}, which plugins.json gives to ${pinned}; it gets no call. Stop it, or correct plugins.json and restart the agent`;
    if (known === undefined) return bind(plugin, [place], "first seen");
    if (known.some((one) => samePlace(one, place))) return undefined;
    const bound =
      known.length === 0 ? "instances that a runner hosts through this agent" : known.map(showPlace).join(", ");
    return `${showPlace(place)} announces plugin ${plugin}, which is bound to ${bound}; it gets no call. Stop it; or, if the driver was moved there on purpose: ${acceptWith(plugin, socketPath)}`;
  };

  return {
    async admit({ plugin, socketPath, incarnation, added }) {
      if (added) {
        if (bindings.of(plugin) === undefined) bind(plugin, [], "hosted"); // A3
        return undefined;
      }
      const found = await placeAt(socketPath);
      if (found === undefined || found.incarnation !== incarnation)
        throw new Error("the socket was replaced while its plugin said who it is");
      // From here on in one turn: of two sockets that announce one name at once, one is first.
      const version = bindings.version();
      const reason = judge(plugin, socketPath, found.place); // A1
      return reason === undefined ? undefined : { reason, changed: (signal) => bindings.changed(version, signal) };
    },

    async accept({ plugin, socketPath, reason }) {
      const violations = [
        ...(isPluginName(plugin) ? [] : [{ field: "plugin", description: "is no name of a plugin" }]),
        ...(path.isAbsolute(socketPath) ? [] : [{ field: "socket", description: "has to be an absolute path" }]),
        ...(/\S/.test(reason) && reason.length <= maxReason
          ? []
          : [{ field: "reason", description: `has to have 1 to ${maxReason} characters` }]),
      ];
      if (violations.length > 0) throw invalidArgument(violations);
      const found = await placeAt(socketPath);
      const metadata = { plugin, socket: socketPath };
      if (found === undefined) {
        const message = `nothing that could be plugin ${plugin} is at ${socketPath}: start it there first, or correct the path`;
        throw new HoldfastError({ kind: "not_found", reason: "PLUGIN_INSTANCE_NOT_FOUND", message, metadata });
      }
      const pinned = listed(socketPath, plugin) ? undefined : pinnedTo(plugin);
      if (pinned !== undefined) {
        const message = `plugins.json gives plugin ${plugin} to ${pinned}: correct that file and restart the agent`;
        throw new HoldfastError({ kind: "precondition", reason: "PLUGIN_IMPOSTOR", message, metadata });
      }
      const known = bindings.of(plugin) ?? [];
      if (known.some((one) => samePlace(one, found.place))) return known;
      // A place that the driver has left for good is nobody's any more; one whose socket is there is another instance of it.
      const others = known.filter(({ socket }) => socket !== found.place.socket);
      const there = await Promise.all(others.map(({ socket }) => lstat(socket).then(Boolean, () => false)));
      const places = [...others.filter((_, at) => there[at]), found.place];
      bind(plugin, places, "accepted");
      return places;
    },
  };
}

interface FoundPlace {
  readonly incarnation: string;
  readonly place: SocketPlace;
}

async function placeAt(socketPath: string): Promise<FoundPlace | undefined> {
  const state = await readSocketState(socketPath, await readOwnUid());
  if (state.kind !== "present") return undefined;
  const { incarnation, owner } = state;
  const directory = await realpath(path.dirname(socketPath));
  return { incarnation, place: { socket: path.join(directory, path.basename(socketPath)), ...owner } };
}
