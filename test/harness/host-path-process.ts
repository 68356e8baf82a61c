/**
 * csi-driver-host-path of one node, which can be caught in the middle of a call. It ends each call that changes something by writing
 * state.json anew, under its one lock; with a FIFO of that name nobody reads it waits there, the deed done and the answer not given.
 */
import { spawnSync } from "node:child_process";
import { access, link, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { callsIn, type DriverCall, type RecordedMethod, recordedMethods } from "./host-path-log.ts";
import { type ManagedProcess, startProcess } from "./managed-process.ts";
import { until } from "./until.ts";

/** What is in state.json after a kill: what it was before the call, half of it, no byte, or a record of nothing. */
export type Left = "as before" | "half" | "no byte" | "nothing";

export interface HostPathState {
  readonly Volumes: readonly {
    readonly VolID: string;
    readonly VolName: string;
    readonly VolPath: string;
    readonly Attached: boolean;
    readonly Staged: readonly string[] | null;
    readonly Published: readonly string[] | null;
  }[];
  readonly Snapshots: readonly { readonly Id: string; readonly Path: string; readonly GroupSnapshotID: string }[];
  readonly GroupSnapshots: readonly { readonly Id: string; readonly SnapshotIDs: readonly string[] }[];
}

export interface HostPathProcess {
  readonly node: string;
  readonly stateDir: string;
  readonly socket: string;
  /** Of all its lives. */
  calls(): readonly DriverCall[];
  /** Begun in this life and not answered. */
  underWay(): readonly string[];
  /** Until it listens, or has ended: it does not start with a record that it cannot read. */
  start(): Promise<boolean>;
  /** From now on its next record waits. */
  arm(): Promise<void>;
  /** Catches the next call of one of the methods before its record is written, and tells which; undefined: given up before. */
  catchIn(methods: readonly RecordedMethod[], givenUp: () => boolean): Promise<RecordedMethod | undefined>;
  /** What was caught goes on, and is answered. */
  letGo(): Promise<void>;
  kill(left: Left): Promise<void>;
  stop(): Promise<void>;
  state(): Promise<HostPathState>;
  /** Puts back what the record was before the last kill. */
  putBack(): Promise<void>;
}

interface HostPathOptions {
  readonly binary: string;
  readonly node: string;
  readonly stateDir: string;
  readonly socket: string;
}

const recorded: ReadonlySet<string> = new Set(recordedMethods);

export const createHostPathProcess = (options: HostPathOptions): HostPathProcess => {
  const { binary, node, stateDir, socket } = options;
  const state = path.join(stateDir, "state.json");
  const real = path.join(stateDir, "state.real");
  const fifo = path.join(stateDir, "state.fifo");
  const lives: ManagedProcess[] = [];
  let armed = false;
  let lastGood = "";

  const life = (): ManagedProcess => {
    const last = lives.at(-1);
    if (last === undefined) throw new Error(`no driver was started on ${node}`);
    return last;
  };
  const underWay = (): readonly string[] =>
    callsIn(life().output())
      .filter(({ end }) => end === "")
      .map(({ method }) => method);

  const ofThreads = async (file: string): Promise<readonly string[]> => {
    const tasks = `/proc/${life().pid}/task`;
    const read = (task: string) => readFile(path.join(tasks, task, file), "utf8").catch(() => "");
    return await Promise.all((await readdir(tasks).catch(() => [])).map(read));
  };
  /** Whether one of them waits for a reader of the FIFO. */
  const waits = async (): Promise<boolean> => (await ofThreads("wchan")).includes("wait_for_partner");
  const stopped = async (): Promise<boolean> =>
    (await ofThreads("stat")).every((stat) => stat === "" || /\) T /.test(stat));

  const arm = async (): Promise<void> => {
    if (armed) return;
    await link(state, real);
    await link(fifo, `${fifo}.next`);
    await rename(`${fifo}.next`, state);
    armed = true;
  };

  /** A stopped writer leaves its wait, and opens the name anew as it goes on: it finds the file. */
  const letGo = async (): Promise<void> => {
    if (!armed) return;
    life().signal("SIGSTOP");
    await until(`the driver of ${node} to stop`, stopped);
    await rename(real, state);
    life().signal("SIGCONT");
    armed = false;
  };

  return {
    node,
    stateDir,
    socket,
    calls: () => lives.flatMap((one) => callsIn(one.output())),
    underWay,
    async start() {
      await mkdir(stateDir, { recursive: true });
      await access(state).catch(() => writeFile(state, "{}", { mode: 0o600 }));
      if (lives.length === 0 && spawnSync("mkfifo", [fifo]).status !== 0) throw new Error(`mkfifo ${fifo} failed`);
      const flags = [
        ...["enable-attach", "check-volume-lifecycle", "enable-controller-modify-volume", "enable-snapshot-metadata"],
        ...["drivername=hostpath.csi.k8s.io", `nodeid=${node}`, `statedir=${stateDir}`, "v=5"],
        ...["accepted-mutable-parameter-names=k", `endpoint=unix://${socket}`],
      ];
      lives.push(
        startProcess({
          name: `host path of ${node}`,
          command: [binary, ...flags.map((flag) => `--${flag}`)],
        }),
      );
      const started = life();
      await until(
        `the driver of ${node} to listen`,
        () => !started.running() || started.output().includes("] Listening for connections"),
      );
      return started.running();
    },
    arm,
    async catchIn(methods, givenUp) {
      for (;;) {
        await arm();
        // What it says arrives a moment after it waits.
        const open = (): boolean => underWay().some((one) => recorded.has(one));
        const found = await until(
          () => `${methods.join(", ")} on ${node}; under way: ${underWay().join(", ")}`,
          async () => ((await waits()) && open()) || (givenUp() ? "given up" : undefined),
          120_000,
        );
        if (found === "given up") {
          await letGo();
          return undefined;
        }
        const caught = methods.find((method) => underWay().includes(method));
        if (caught !== undefined) return caught;
        await letGo();
      }
    },
    letGo,
    async kill(left) {
      await life().kill("SIGKILL");
      const file = armed ? real : state;
      lastGood = await readFile(file, "utf8").catch(() => "{}");
      const texts: Record<Left, string> = {
        "as before": lastGood,
        half: lastGood.slice(0, lastGood.length / 2),
        "no byte": "",
        nothing: "{}",
      };
      await writeFile(`${real}.new`, texts[left], { mode: 0o600 });
      await rename(`${real}.new`, state);
      await rm(real, { force: true });
      armed = false;
    },
    async stop() {
      if (lives.length === 0) return;
      await letGo();
      await life().kill("SIGTERM");
    },
    async state() {
      return JSON.parse(await readFile(state, "utf8").catch(() => "{}")) as HostPathState;
    },
    putBack: () => writeFile(state, lastGood, { mode: 0o600 }),
  };
};
