/** What the host gives the agent: rights, programs, namespaces and the way its mounts go. */
import { constants } from "node:fs";
import { access, readFile, readlink, stat } from "node:fs/promises";
import path from "node:path";
import { type Finding, fault, fine, warning } from "@holdfast/shared/doctor/finding";
import { nearestThere } from "@holdfast/shared/doctor/nearest-there";
import { type HostView, hostView } from "../volumes/host-view.ts";

/** CAP_SYS_ADMIN mounts; CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE look into other mount namespaces. */
const needed: readonly (readonly [name: string, bit: bigint])[] = [
  ["CAP_SYS_ADMIN", 21n],
  ["CAP_SYS_PTRACE", 19n],
];
const programs = ["mount", "umount"] as const;

export interface HostFacts {
  /** /proc, or what stands for it in a test. */
  readonly proc: string;
  readonly searchPath: string;
}

const examineRights = async ({ proc }: HostFacts): Promise<readonly Finding[]> => {
  const status = await readFile(path.join(proc, "self/status"), "utf8");
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? "0"}`);
  const missing = needed.filter(([, bit]) => (effective & (1n << bit)) === 0n).map(([name]) => name);
  if (missing.length === 0) return [fine("rights", "this process", "may mount, and may look at the host's mounts")];
  return [
    fault(
      "rights",
      "this process",
      `has no ${missing.join(" and no ")}`,
      "run the agent as root of the host; in a container: privileged, or cap_add with these names",
    ),
  ];
};

const examinePrograms = async ({ searchPath }: HostFacts): Promise<readonly Finding[]> => {
  const found = await Promise.all(
    programs.map(async (program) => {
      const tries = searchPath.split(":").map((dir) => access(path.join(dir, program), constants.X_OK));
      return (await Promise.allSettled(tries)).some(({ status }) => status === "fulfilled") ? [] : [program];
    }),
  );
  const missing = found.flat();
  return missing.length === 0
    ? []
    : [
        fault(
          "programs",
          missing.join(", "),
          "not found in PATH",
          "install the package mount (Debian: apt-get install mount)",
        ),
      ];
};

const namespaceOf = (proc: string, pid: string): Promise<string | undefined> =>
  readlink(path.join(proc, pid, "ns/mnt")).catch(() => undefined);

/** The innermost mount that a path is on: its optional fields tell whether mounts below it reach others. */
const mountOf = (mountinfo: string, dir: string) =>
  mountinfo
    .split("\n")
    .map((line) => {
      const fields = line.split(" ");
      return {
        point: fields[4] ?? "",
        shared: fields.slice(6, fields.indexOf("-", 6)).some((field) => field.startsWith("shared:")),
      };
    })
    .filter(({ point }) => point === "/" || dir === point || dir.startsWith(`${point}/`))
    .reduce((best, each) => (each.point.length >= best.point.length ? each : best), { point: "", shared: false });

const examinePropagation = async ({ proc }: HostFacts, rootDir: string): Promise<readonly Finding[]> => {
  const [own, host] = [await namespaceOf(proc, "self"), await namespaceOf(proc, "1")];
  const { point, shared } = mountOf(await readFile(path.join(proc, "self/mountinfo"), "utf8"), rootDir);
  if (shared)
    return [
      fine("mount-propagation", rootDir, `${point} is shared: mounts below it reach the host and its containers`),
    ];
  const cure =
    own !== undefined && own === host
      ? `mount --make-rshared ${point}`
      : `mount it into the agent's container with propagation rshared (compose: bind: { propagation: rshared })`;
  return [
    fault("mount-propagation", rootDir, `${point} is private: what is mounted below it is seen by nobody else`, cure),
  ];
};

/** The path that a scheduler is told is one of the host. */
const examineHostPath = async ({ proc }: HostFacts, rootDir: string): Promise<readonly Finding[]> => {
  const there = await nearestThere(rootDir);
  const hostsRoot = path.join(proc, "1/root");
  const [own, hosts] = await Promise.all([stat(there), stat(path.join(hostsRoot, there)).catch(() => undefined)]);
  if (hosts === undefined && (await stat(`${hostsRoot}/`).catch(() => undefined)) === undefined)
    return [
      warning(
        "host-view",
        rootDir,
        "the host's file tree cannot be seen from here, so that it is not known whether this is the host's directory",
        "run the agent in the host's PID namespace (compose: pid: host)",
      ),
    ];
  if (own.dev === hosts?.dev && own.ino === hosts.ino)
    return [fine("host-path", rootDir, "is the same directory to the host")];
  return [
    fault(
      "host-path",
      rootDir,
      "is another directory to the host: workloads would be given a path that holds nothing",
      "mount the host's directory into the container at the very same path",
    ),
  ];
};

const scopeCures: Readonly<Record<Exclude<HostView, "whole">, string>> = {
  "own-pid-namespace": "run the agent in the host's PID namespace (compose: pid: host)",
  "not-allowed":
    "it is in the host's PID namespace and may not read /proc/1/ns/mnt: run it as root with CAP_SYS_PTRACE (compose: privileged: true, or cap_add)",
};

const examineScope = async ({ proc }: HostFacts): Promise<readonly Finding[]> => {
  const view = await hostView(proc);
  if (view === "whole") return [fine("mount-namespaces", "the host's processes", "their mounts can be looked at")];
  return [
    warning(
      "mount-namespaces",
      "the host's processes",
      "their mounts cannot be looked at: a volume that a container still holds counts as released",
      scopeCures[view],
    ),
  ];
};

export const examineHost = async (facts: HostFacts, rootDir: string): Promise<readonly Finding[]> => [
  ...(await examineRights(facts)),
  ...(await examinePrograms(facts)),
  ...(await examineScope(facts)),
  ...(await examinePropagation(facts, rootDir)),
  ...(await examineHostPath(facts, rootDir)),
];
