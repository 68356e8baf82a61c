/**
 * The plugin of dynamic host volumes under a real Nomad, whose binary HOLDFAST_NOMAD names: its licence keeps it out of what this repository
 * installs. What test/e2e/nomad-volumes.e2e.test.ts holds of Nomad is judged here by Nomad itself.
 */
import { access, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { createNomadAgent, type NomadAgent } from "../harness/nomad-agent.ts";
import { expectClean, namespace, plugin } from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";

const binary = process.env["HOLDFAST_NOMAD"] ?? "";
const runs = full && process.getuid?.() === 0 && binary !== "";
if (full && !runs) console.warn("SKIPPED: a real Nomad needs root, and its binary (1.10 or later) in HOLDFAST_NOMAD");

const MiB = 1 << 20;
const examples = path.resolve(import.meta.dirname, "../../examples/nomad");

interface HostVolume {
  readonly State: string;
  readonly HostPath: string;
  readonly CapacityBytes: number;
}

describe.skipIf(!runs)("a real Nomad", { timeout: 300_000 }, () => {
  let dir: string;
  let cluster: Cluster;
  let nomad: NomadAgent;

  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-real-nomad-"));
    const socket = path.join(dir, "nomad.sock");
    cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      controllerEnv: { HOLDFAST_LINK_GRACE: "1s" },
      agentEnv: { HOLDFAST_NOMAD_SOCKET: socket },
    });
    nomad = await createNomadAgent(binary, path.join(dir, "nomad"), socket);
    await nomad.start();
    await nomad.run(["namespace", "apply", namespace]);
  }, 180_000);
  afterAll(async () => {
    await nomad?.end();
    await cluster?.stop();
    await rm(dir ?? "/nonexistent", { recursive: true, force: true });
  });

  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(path.join(dir, name), text);
    return path.join(dir, name);
  };
  const create = async (name: string, bytes: number, id?: string): Promise<string> => {
    const spec = `
${id === undefined ? "" : `id = "${id}"`}
namespace    = "${namespace}"
name         = "${name}"
type         = "host"
plugin_id    = "holdfast"
capacity_min = "${bytes / MiB}MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

parameters {
  plugin = "${plugin}"
}
`;
    const printed = await nomad.run(["volume", "create", await file(`${name}.hcl`, spec)]);
    const [made] = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(printed) ?? [];
    if (made === undefined) throw new Error(`no id in: ${printed}`);
    return made;
  };
  const remove = (id: string) => nomad.run(["volume", "delete", "-type", "host", "-namespace", namespace, id]);
  const read = (id: string) => nomad.get<HostVolume>(`/v1/volume/host/${id}?namespace=${namespace}`);
  const holders = async (id: string) =>
    (await cluster.volumes.getVolume({ namespace, id })).volume?.holders.map(({ workload }) => workload);
  const statuses = async (job: string): Promise<readonly string[]> =>
    (
      await nomad.get<readonly { readonly ClientStatus: string }[]>(`/v1/job/${job}/allocations?namespace=${namespace}`)
    ).map((alloc) => alloc.ClientStatus);
  /** Placed where the volume is. `raw_exec` mounts none, and `exec` wants more of a host than a test may ask: so the task is told the path. */
  const startWriter = async (job: string, volume: string, to: string): Promise<void> => {
    const text = `
job "${job}" {
  namespace = "${namespace}"

  group "all" {
    volume "data" {
      type            = "host"
      source          = "${volume}"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "write" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo kept >> ${to}; exec sleep 1000"]
      }
    }
  }
}
`;
    await nomad.run(["job", "run", "-detach", await file(`${job}.nomad.hcl`, text)]);
    await until(`${job} to write`, () => readFile(to, "utf8").catch(() => undefined), 60_000);
  };

  it("create, a job on it, both agents killed, growth, delete: one claim, the data stays, and nothing is left", async () => {
    const id = await create("data", 16 * MiB);
    const made = await read(id);
    expect(made).toMatchObject({ State: "ready", CapacityBytes: 16 * MiB });
    expect(await holders(id)).toEqual([`nomad@node-a:${id}`]);
    const { volume } = await cluster.volumes.getVolume({ namespace, id });
    expect(volume?.labels).toMatchObject({ "holdfast.made-by": "nomad", "nomad.name": "data" });
    const written = path.join(made.HostPath, "file");
    await startWriter("web", "data", written);
    await expect(remove(id)).rejects.toThrow();
    expect(await holders(id)).toEqual([`nomad@node-a:${id}`]);

    // At its start the client asks for the volume once, before the agent is there. Each answer is a new file.
    const answered = async () => (await stat(path.join(nomad.volumesDir, `.holdfast-${id}`))).ino;
    const before = await answered();
    await nomad.kill();
    await cluster.node("node-a").agent().kill("SIGKILL");
    const restarted = nomad.start();
    await sleep(300);
    await cluster.node("node-a").startAgent();
    await restarted;
    await until("the client to ask for its volume", async () => (await answered()) !== before, 60_000);
    expect(await readFile(written, "utf8")).toBe("kept\n");
    expect(await statuses("web")).toEqual(["running"]);
    expect(await holders(id)).toEqual([`nomad@node-a:${id}`]);

    expect(await create("data", 32 * MiB, id)).toBe(id);
    expect(await read(id)).toMatchObject({ HostPath: made.HostPath, CapacityBytes: 32 * MiB });
    expect(await readFile(written, "utf8")).toBe("kept\n");

    await nomad.run(["job", "stop", "-detach", "-namespace", namespace, "web"]);
    await until("the job to end", async () => (await statuses("web")).every((status) => status === "complete"));
    await remove(id);
    await expect(access(made.HostPath)).rejects.toThrow();
    expect(await nomad.get(`/v1/volumes?type=host&namespace=${namespace}`)).toEqual([]);
    expect(await readdir(nomad.volumesDir)).toEqual([]);
    await expectClean(cluster);
  });

  it("takes the job of examples/nomad, and would refuse a wrong one", async () => {
    await nomad.run(["job", "validate", "claims.nomad.hcl"], examples);
    const job = await readFile(path.join(examples, "claims.nomad.hcl"), "utf8");
    const wrong = await file("wrong.nomad.hcl", job.replace('"poststop"', '"never"'));
    await expect(nomad.run(["job", "validate", wrong], examples)).rejects.toThrow(/never|hook/);
  });
});
