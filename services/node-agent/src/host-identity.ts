/** Which host this is, and which boot of it. */
import { access, readFile, realpath } from "node:fs/promises";
import { parseMountinfo } from "@holdfast/model/mountinfo";
import { ConfigError } from "@holdfast/shared/config/config-error";

export interface HostIdentity {
  readonly machineId: string;
  readonly bootId: string;
}

/** What the machine id is judged by. */
export interface HostFacts {
  /** undefined = there is no such file. */
  read(file: string): Promise<string | undefined>;
  inContainer(): Promise<boolean>;
  /** The mount on which the file lies. */
  mountOf(file: string): Promise<string>;
}

/** Container runtimes leave one of these; systemd names the runtime in the last one. */
const containerMarks = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];

const isThere = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

const contains = (mount: string, file: string): boolean =>
  mount === "/" || file === mount || file.startsWith(`${mount}/`);

export const systemFacts: HostFacts = {
  read: (file) => readFile(file, "utf8").catch(() => undefined),
  inContainer: async () => (await Promise.all(containerMarks.map(isThere))).includes(true),
  async mountOf(file) {
    const real = await realpath(file);
    return parseMountinfo(await readFile("/proc/self/mountinfo", "utf8"))
      .map(({ path }) => path)
      .filter((point) => contains(point, real))
      .reduce((longest, point) => (point.length > longest.length ? point : longest), "/");
  },
};

const mountIt = (file: string): string => `in a container mount the host's file: --volume /etc/machine-id:${file}:ro`;

/** Why the text is not the id of a machine; undefined = it is one. */
const wrongWith = (text: string | undefined): string | undefined => {
  const id = text?.trim();
  if (id === undefined) return "is missing";
  if (id === "") return "is empty";
  if (id === "uninitialized") return "says uninitialized: the machine has not finished its first boot";
  return /^[0-9a-f]{32}$/i.test(id) && !/^0+$/.test(id) ? undefined : "does not hold 32 hexadecimal digits";
};

/**
 * A machine id that is not the host's own makes two hosts one: every container of an image with an id in it would be the same machine.
 * The root file system of a container is the image.
 */
export async function readHostIdentity(
  file: string,
  knownBootId: string | undefined,
  facts: HostFacts = systemFacts,
): Promise<HostIdentity> {
  const text = await facts.read(file);
  const wrong = wrongWith(text);
  if (wrong !== undefined)
    throw refusedId(file, `${wrong}; make one with systemd-machine-id-setup on the host; ${mountIt(file)}`);
  if ((await facts.inContainer()) && (await facts.mountOf(file)) === "/")
    throw refusedId(file, `comes with the image of this container and not from the host; ${mountIt(file)}`);
  const bootId = knownBootId ?? (await facts.read("/proc/sys/kernel/random/boot_id"))?.trim() ?? "";
  return { machineId: (text ?? "").trim().toLowerCase(), bootId: bootId === "" ? "unknown" : bootId };
}

const refusedId = (file: string, why: string): ConfigError =>
  new ConfigError([{ field: "HOLDFAST_MACHINE_ID_FILE", description: `names ${file}, which ${why}` }]);
