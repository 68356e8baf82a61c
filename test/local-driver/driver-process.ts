/**
 * The driver as a process of its own on directories of its own: started, killed and started again. Whatever a test leaves below its
 * home (mounts, loop devices, frozen filesystems, programs that outlived the driver) goes with `remove()`, also when the test failed.
 */
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ManagedProcess, startProcess } from "../harness/managed-process.ts";
import { until } from "../harness/until.ts";
import { serviceProgram } from "../support/service-program.ts";
import { cleanUp, tearDown } from "./clean-up.ts";
import { type CsiClients, openCsiClients } from "./csi-clients.ts";
import { childrenOf, loopsBelow, mountsBelow, strayFiles } from "./host-facts.ts";

export const driverMain = serviceProgram("local-driver");

export interface DriverProcess {
  /** Holds everything of this test. */
  readonly home: string;
  readonly stateDir: string;
  readonly socket: string;
  /** Of the life under way. */
  readonly csi: () => CsiClients;
  readonly pid: () => number;
  readonly output: () => string;
  /** A client besides; closed with the driver. */
  connect(): CsiClients;
  start(env?: Readonly<Record<string, string>>): Promise<void>;
  /** Starts and is killed before it has come far, or just when it is ready. */
  startAndKill(afterMs: number): Promise<void>;
  /** SIGKILL of the one process; what it started is left alone. */
  kill(): Promise<void>;
  /** SIGTERM; answers the exit code. */
  stop(): Promise<number | NodeJS.Signals>;
  /** What a reboot leaves: files alone. */
  reboot(): Promise<void>;
  /** A staging directory, made as a CO does. */
  stagingPath(name: string): Promise<string>;
  /** A target that the driver has to make; its parent is made as a CO does. */
  targetPath(name: string): Promise<string>;
  /** What there is on the host that should be gone when nothing is staged: empty when all is well. */
  leftovers(): Promise<readonly string[]>;
  remove(): Promise<void>;
}

export interface DriverOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Made by the caller: where the state directory shall be, below the home. */
  readonly prepareState?: (home: string) => Promise<string>;
  /** A program that becomes the driver, with its own arguments: given the driver's command line after them. */
  readonly wrap?: (home: string) => Promise<readonly [string, ...string[]]>;
}

export const createDriverProcess = async ({
  env = {},
  prepareState,
  wrap,
}: DriverOptions = {}): Promise<DriverProcess> => {
  const home = await realpath(await mkdtemp(path.join(tmpdir(), "hf-local-")));
  const stateDir = prepareState === undefined ? path.join(home, "state") : await prepareState(home);
  const socket = path.join(home, "csi.sock");
  const wrapper = wrap === undefined ? undefined : await wrap(home);
  const lives: ManagedProcess[] = [];
  const others: CsiClients[] = [];
  let clients: CsiClients | undefined;

  const spawn = (more: Readonly<Record<string, string>> = {}): ManagedProcess => {
    const life = startProcess({
      name: `local-driver ${lives.length + 1}`,
      command: wrapper === undefined ? [process.execPath, driverMain] : [...wrapper, process.execPath, driverMain],
      env: {
        HOLDFAST_LOCAL_SOCKET: socket,
        HOLDFAST_LOCAL_STATE_DIR: stateDir,
        HOLDFAST_LOCAL_NODE_ID: "node-a",
        HOLDFAST_LOG_LEVEL: "info",
        ...env,
        ...more,
      },
    });
    lives.push(life);
    return life;
  };

  const current = (): ManagedProcess => {
    const life = lives.at(-1);
    if (life === undefined) throw new Error("the driver was not started");
    return life;
  };

  const disconnect = (): void => {
    clients?.close();
    clients = undefined;
  };

  const kill = async (): Promise<void> => {
    disconnect();
    await lives.at(-1)?.kill("SIGKILL");
  };

  return {
    home,
    stateDir,
    socket,
    csi: () => {
      if (clients === undefined) throw new Error("the driver is not running");
      return clients;
    },
    pid: () => current().pid,
    output: () => lives.map((life) => `--- ${life.name}\n${life.output()}`).join("\n"),
    connect: () => {
      const other = openCsiClients(socket);
      others.push(other);
      return other;
    },
    start: async (more) => {
      await spawn(more).line((line) => line["message"] === "ready", "its line `ready`");
      clients = openCsiClients(socket);
    },
    startAndKill: async (afterMs) => {
      const life = spawn();
      await Promise.race([sleep(afterMs), life.exited()]);
      await life.kill("SIGKILL");
    },
    kill,
    stop: async () => {
      disconnect();
      return await current().kill("SIGTERM");
    },
    reboot: async () => {
      await kill();
      await tearDown(path.join(home, "co"), stateDir);
      await tearDown(home, stateDir);
    },
    stagingPath: async (name) => {
      const directory = path.join(home, "co", name, "staging");
      await mkdir(directory, { recursive: true });
      return directory;
    },
    targetPath: async (name) => {
      const parent = path.join(home, "co", name);
      await mkdir(parent, { recursive: true });
      return path.join(parent, "target");
    },
    leftovers: async () => {
      // Contents are deleted after the answer, in their own time.
      let stray: readonly string[] = [];
      await until("the deletions to end", async () => {
        stray = await strayFiles(stateDir);
        return !stray.some((file) => file.startsWith("trash"));
      }).catch(() => undefined);
      const disk = (point: string): boolean => point === stateDir;
      const mounts = (await mountsBelow(home)).map(({ point }) => point).filter((point) => !disk(point));
      const loops = (await loopsBelow(home)).filter(({ image }) => image.startsWith(`${stateDir}/`));
      return [
        ...stray.map((file) => `file ${file}`),
        ...mounts.map((point) => `mount ${point}`),
        ...loops.map(({ device, image }) => `loop ${device} of ${image}`),
        ...(await childrenOf(stateDir)).map((pid) => `process ${pid}`),
      ];
    },
    remove: async () => {
      for (const other of others) other.close();
      await kill();
      await cleanUp(home, stateDir);
      await rm(home, { recursive: true, force: true });
    },
  };
};
