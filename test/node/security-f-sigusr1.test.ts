import { mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ManagedProcess, startProcess } from "../harness/managed-process.ts";
import { until } from "../harness/until.ts";

const repo = path.resolve(import.meta.dirname, "../..");
const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: a node-agent needs root");

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-usr1-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const services = (): Readonly<Record<"controller" | "node-agent", Readonly<Record<string, string>>>> => ({
  controller: {
    HOLDFAST_LISTEN: "127.0.0.1:0",
    HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
    HOLDFAST_STATE_DIR: path.join(dir, "controller"),
    HOLDFAST_PLUGIN_DIR: path.join(dir, "cp"),
  },
  "node-agent": {
    HOLDFAST_NODE: "n",
    HOLDFAST_STATE_DIR: path.join(dir, "agent"),
    HOLDFAST_ROOT_DIR: path.join(dir, "m"),
    HOLDFAST_PLUGIN_DIR: path.join(dir, "np"),
    HOLDFAST_HOSTED_PLUGIN_DIR: path.join(dir, "hp"),
    HOLDFAST_CONTROLLERS: "127.0.0.1:1",
    HOLDFAST_MACHINE_ID_FILE: machineIdFile(),
  },
});

/** How many TCP sockets this very process listens on. */
const listening = async (service: ManagedProcess): Promise<number> => {
  const fds = `/proc/${service.pid}/fd`;
  const links = await Promise.all((await readdir(fds)).map((fd) => readlink(path.join(fds, fd)).catch(() => "")));
  const own = new Set(links.map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1]));
  return (await readFile(`/proc/${service.pid}/net/tcp`, "utf8"))
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === "0A" && own.has(inode)).length;
};

/** As an operator may start it, without any flag, and as our units and images do. */
describe.skipIf(!root)("a service that is sent SIGUSR1", () => {
  test.each([
    ["controller", []],
    ["node-agent", []],
    ["controller", ["--disable-sigusr1"]],
    ["node-agent", ["--disable-sigusr1"]],
  ] as const)("%s %j opens no inspector, and lives on", async (name, flags) => {
    const service = startProcess({
      name,
      command: [process.execPath, ...flags, path.join(repo, `services/${name}/src/main.ts`)],
      env: { HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0", ...services()[name] },
    });
    try {
      const said = (message: string) => service.line((line) => line["message"] === message, message);
      const { address } = await said("admin listening");
      // For schedulers, for agents and for metrics; an agent has the last of them alone.
      const before = name === "controller" ? 3 : 1;
      await until("all of its listeners", async () => (await listening(service)) === before);
      for (let sent = 0; sent < 3; sent += 1) {
        service.signal("SIGUSR1");
        expect((await fetch(`http://${String(address)}/healthz`)).status).toBe(200);
      }
      expect(await listening(service)).toBe(before);
      expect(service.output()).not.toContain("Debugger listening");
      expect(service.running()).toBe(true);
    } finally {
      expect(await service.kill("SIGTERM")).toBe(0);
    }
  });
});
