import { lstat, readdir } from "node:fs/promises";
import net from "node:net";
import path from "node:path";
import { type Finding, fault, fine, warning } from "./finding.ts";

const patienceMs = 2_000;

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : String(error);

/** undefined: somebody answered. */
const connectFault = (socket: string): Promise<string | undefined> =>
  new Promise((resolve) => {
    const connection = net.connect(socket);
    const end = (answer: string | undefined): void => {
      connection.destroy();
      resolve(answer);
    };
    connection.setTimeout(patienceMs, () => end("ETIMEDOUT"));
    connection.once("connect", () => end(undefined));
    connection.once("error", (error) => end(codeOf(error)));
  });

const socketsIn = async (dir: string): Promise<readonly string[]> => {
  const found: string[] = [];
  for (const name of await readdir(dir)) {
    const candidates = name.endsWith(".sock") ? [path.join(dir, name)] : [path.join(dir, name, "csi.sock")];
    for (const candidate of candidates) {
      const stat = await lstat(candidate).catch(() => undefined);
      if (stat?.isSocket() === true) found.push(candidate);
    }
  }
  return found.sort();
};

const ofSocket = async (socket: string, setting: string): Promise<Finding> => {
  const problem = await connectFault(socket);
  if (problem === undefined) return fine("plugin-socket", socket, "a plugin listens there");
  if (problem === "EACCES" || problem === "EPERM")
    return fault(
      "socket-forbidden",
      socket,
      `this user may not connect (${problem})`,
      `run this service as the owner of the socket, or open the socket to it; see ${setting}`,
    );
  return fault(
    "stale-socket",
    socket,
    `nobody listens there (${problem}): the plugin ended and left its socket`,
    "start the plugin again, or remove the socket",
  );
};

/** The sockets in a directory of plugins, each tried. */
export const examineSockets = async (dir: string, setting: string): Promise<readonly Finding[]> => {
  let sockets: readonly string[];
  try {
    sockets = await socketsIn(dir);
  } catch (error) {
    return [
      fault(
        "plugin-dir",
        dir,
        `cannot be read (${codeOf(error)})`,
        `make it (mkdir -p ${dir}), or correct ${setting}: plugins show their sockets in it`,
      ),
    ];
  }
  if (sockets.length === 0)
    return [
      warning(
        "no-plugin",
        dir,
        "there is no plugin's socket",
        `start a plugin with its socket in it, or correct ${setting}`,
      ),
    ];
  return await Promise.all(sockets.map((socket) => ofSocket(socket, setting)));
};
