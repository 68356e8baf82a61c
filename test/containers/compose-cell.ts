/** The cell that docker-compose.yml starts, as its operator sees it: containers, the command line, files of the host. */
import { until } from "../harness/until.ts";
import { type Engine, hostDirectory } from "./engine.ts";

export const everyProfile = ["two-nodes", "observability", "tools"].flatMap((name) => ["--profile", name]);

export interface ActiveClaim {
  readonly workload: string;
  readonly node: string;
  readonly state: string;
  readonly host_path: string;
  /** Both stay as they are while a claim stays ACTIVE. */
  readonly active_at: string;
  readonly state_since: string;
}

export const createComposeCell = ({ compose, docker, onHost }: Engine) => {
  const cli = (args: readonly string[], input?: string): Promise<string> =>
    compose(["run", "-T", "--rm", "--no-deps", "cli", ...args], input);
  const idOf = (service: string): Promise<string> => compose([...everyProfile, "ps", "-q", service]);
  const inspect = async (id: string, format: string): Promise<string> =>
    await docker(["inspect", "--format", format, id]);
  const processes = async (id: string): Promise<readonly { readonly pid: number; readonly rssMiB: number }[]> =>
    (await docker(["top", id, "-eo", "pid,rss,args"]))
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .map(([pid, rss]) => ({ pid: Number(pid), rssMiB: Math.round(Number(rss) / 1024) }));

  return {
    cli,
    idOf,
    inspect,
    processes,
    /** Started, and healthy by its own check. */
    healthy: (services: readonly string[]) =>
      until(
        () => `${services.join(", ")} to be healthy`,
        async () => {
          const ids = await Promise.all(services.map(idOf));
          const found = await Promise.all(ids.map((id) => inspect(id, "{{.State.Health.Status}}").catch(() => "away")));
          return found.every((state) => state === "healthy");
        },
        180_000,
      ),
    claims: async (): Promise<readonly ActiveClaim[]> => {
      const { claims } = JSON.parse(await cli(["--json", "claim", "list"])) as {
        readonly claims: readonly ActiveClaim[];
      };
      return claims
        .map(({ workload, node, state, host_path, active_at, state_since }) => ({
          ...{ workload, node, state, host_path, active_at, state_since },
        }))
        .sort((a, b) => (a.workload < b.workload ? -1 : 1));
    },
    createVolume: (id: string, plugin: string, type: string) =>
      cli(
        ["volume", "create", "-"],
        JSON.stringify({
          ...{ id, plugin, capacity: { required_bytes: "64MiB" }, parameters: { type } },
          capabilities: [{ attachment_mode: "file-system", access_mode: "single-node-writer" }],
        }),
      ),
    /** Below the directory of the compose file. */
    mounts: async (): Promise<readonly string[]> =>
      (await onHost("findmnt -rno TARGET || true")).split("\n").filter((line) => line.startsWith(`${hostDirectory}/`)),
    /** The path of a file that was opened in a container which is gone begins below what was mounted there. */
    loops: async (): Promise<readonly string[]> =>
      (await onHost("losetup --list --noheadings --output BACK-FILE"))
        .split("\n")
        .filter((line) => /\/node-[ab]\/local\/volumes\//.test(line)),
    logOf: async (service: string): Promise<string> => await docker(["logs", await idOf(service)]),
  };
};

/** Writes every 50 ms through the host's mounts, as a workload does, until it is ended; answers how many writes failed. */
export const startWriter = (onHost: Engine["onHost"], paths: readonly string[], stopFile: string) => {
  const words = paths.map((path) => `'${path}/beats'`).join(" ");
  const running = onHost(
    `rm -f ${stopFile}; written=0; failed=0
     until [ -e ${stopFile} ]; do
       for file in ${words}; do
         if echo beat >> "$file" && sync "$file"; then written=$((written + 1)); else failed=$((failed + 1)); fi
       done
       sleep 0.05
     done
     echo "$written $failed"`,
  );
  return {
    /** May be called again. */
    async end(): Promise<{ readonly written: number; readonly failed: number }> {
      await onHost(`touch ${stopFile}`);
      const [written = 0, failed = 0] = (await running).split(" ").map(Number);
      return { written, failed };
    },
  };
};
