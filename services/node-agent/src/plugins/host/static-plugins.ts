/**
 * What a plugin that shows a socket cannot say itself: its role, the name it has to have, and how its container sees the
 * agent's root. Kept in a JSON file, `plugins.json` in the directory of the sockets, read at the start of the agent:
 *
 *     {"plugins": [{"socket": "ebs.sock", "id": "ebs.csi.aws.com", "role": "node", "publish_dir": "/local/csi"}]}
 */
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { KnownInstance } from "@holdfast/csi/plugin-directory";
import { isPluginName } from "@holdfast/csi/plugin-name";
import { isPlainPath } from "../../domain/path-map.ts";
import { maxRootBytes } from "../../domain/paths.ts";
import { type InstanceRole, serves } from "../../domain/plugin-registry.ts";

export interface StaticPlugins {
  describe(socketPath: string): KnownInstance | undefined;
  /** The socket that has this name for its node half, where the file says so; no other one may have it then. */
  pinnedTo(plugin: string): string | undefined;
  /** Undefined: it sees the host's own tree. */
  publishDirOf(socketPath: string): string | undefined;
}

interface StaticPlugin extends KnownInstance {
  readonly role: InstanceRole;
  readonly socketPath: string;
  readonly publishDir: string | undefined;
}

export const staticFileName = "plugins.json";

/** Throws with every mistake at once; a file that is not there is an empty one. */
export async function readStaticPlugins(dir: string): Promise<StaticPlugins> {
  const file = path.join(dir, staticFileName);
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw error;
  });
  const known = new Map((text === undefined ? [] : parseStaticPlugins(text, dir)).map((one) => [one.socketPath, one]));
  return {
    describe(socketPath) {
      const found = known.get(socketPath);
      if (found === undefined) return undefined;
      const { role, expectedName, maxInFlight } = found;
      return { role, expectedName, maxInFlight };
    },
    pinnedTo: (plugin) =>
      [...known.values()].find(({ expectedName, role }) => expectedName === plugin && serves(role, "node"))?.socketPath,
    publishDirOf: (socketPath) => known.get(socketPath)?.publishDir,
  };
}

const roles: ReadonlySet<unknown> = new Set<InstanceRole>(["controller", "node", "monolith"]);
const fields: ReadonlySet<string> = new Set(["socket", "id", "role", "publish_dir", "max_concurrent_calls"]);

export function parseStaticPlugins(text: string, dir: string): readonly StaticPlugin[] {
  const wrong: string[] = [];
  const list = listIn(text, wrong);
  const plugins = list.map((item, at) => pluginIn(item, (what) => wrong.push(`plugins[${at}] ${what}`), dir));
  const sockets = plugins.map(({ socketPath }) => socketPath);
  for (const [at, socket] of sockets.entries())
    if (sockets.indexOf(socket) < at) wrong.push(`plugins[${at}] names ${socket} a second time`);
  if (wrong.length > 0) throw new Error(`${path.join(dir, staticFileName)}: ${wrong.join("; ")}`);
  return plugins;
}

function listIn(text: string, wrong: string[]): readonly unknown[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    wrong.push(`is no JSON: ${String(error)}`);
    return [];
  }
  const list = isObject(value) ? value["plugins"] : undefined;
  if (Array.isArray(list)) return list;
  wrong.push('has to be {"plugins": [...]}');
  return [];
}

function pluginIn(item: unknown, wrong: (what: string) => void, dir: string): StaticPlugin {
  if (!isObject(item)) {
    wrong("is no object");
    return { socketPath: "", role: "node", publishDir: undefined };
  }
  for (const name of Object.keys(item)) if (!fields.has(name)) wrong(`has a field ${name} that nobody knows`);
  const { socket, id, role = "node", publish_dir: publishDir, max_concurrent_calls: most } = item;
  const socketOk =
    typeof socket === "string" && /^[^/\0]+(\.sock|\/csi\.sock)$/.test(socket) && !socket.startsWith(".");
  if (!socketOk) wrong('socket has to be "<name>.sock" or "<name>/csi.sock"');
  if (id !== undefined && !isPluginName(id)) wrong("id is no name of a plugin");
  if (!roles.has(role)) wrong("role has to be controller, node or monolith");
  const dirOk =
    typeof publishDir === "string" && isPlainPath(publishDir) && Buffer.byteLength(publishDir) <= maxRootBytes;
  if (publishDir !== undefined && !dirOk)
    wrong(`publish_dir has to be a plain absolute path of at most ${maxRootBytes} bytes`);
  const mostOk = typeof most === "number" && Number.isSafeInteger(most) && most >= 1 && most <= 64;
  if (most !== undefined && !mostOk) wrong("max_concurrent_calls has to be a number from 1 to 64");
  return {
    socketPath: path.join(dir, String(socket)),
    role: role as InstanceRole,
    ...(typeof id === "string" ? { expectedName: id } : {}),
    ...(typeof most === "number" ? { maxInFlight: most } : {}),
    publishDir: typeof publishDir === "string" ? publishDir : undefined,
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
