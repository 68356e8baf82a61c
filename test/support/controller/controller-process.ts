/** A controller over all its lives: it dies at any commit, stands still, and is started again; its plugin's processes outlive it. */
import type { AgentGateway } from "@holdfast/controller/agent-ports";
import type { Store } from "@holdfast/controller/ports";
import type { Clock } from "@holdfast/shared/async/clock";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { type ControllerLife, type ControllerLifeDeps, startControllerLife } from "./api-controller.ts";
import { createHalting, type Halting } from "./halting.ts";
import { createProcessesBeside, type ProcessesBesideDeps, sockets } from "./processes-beside.ts";
import { type CommitFate, type CommitFates, createStoreOfLife, type StoreOfLifeDeps } from "./store-of-life.ts";

export interface ControllerProcessDeps
  extends Pick<ControllerLifeDeps, "id" | "shared" | "gate" | "ids" | "log" | "tracing" | "broken">,
    Omit<ProcessesBesideDeps, "controller"> {
  readonly store: Store;
  readonly hosts: AgentGateway;
  readonly clock: Clock;
  readonly fates: CommitFates;
  readonly saw: (commit: Parameters<StoreOfLifeDeps["saw"]>[0], issuer: string) => void;
}

/** Agents do what they were asked for, whether or not the controller runs that hears their answer. */
export const heardBy = (
  halting: Halting,
  { publish, release, expand, stats, inventory, promise }: AgentGateway,
): AgentGateway => ({
  publish: (...asked) => halting.through(publish(...asked)),
  release: (...asked) => halting.through(release(...asked)),
  expand: (...asked) => halting.through(expand(...asked)),
  stats: (...asked) => halting.through(stats(...asked)),
  inventory: (...asked) => halting.through(inventory(...asked)),
  promise: (...asked) => halting.through(promise(...asked)),
});

export type ControllerProcess = Awaited<ReturnType<typeof createControllerProcess>>;

export const createControllerProcess = async (deps: ControllerProcessDeps) => {
  const { id, clock, fates } = deps;
  const halting = createHalting(clock);
  const beside = createProcessesBeside({ ...deps, controller: id });
  let number = 0;
  let ending = new AbortController();
  /** By the clock of the world: when the next life starts, once this one is over. */
  let nextAt = 0;

  const start = async (): Promise<ControllerLife> => {
    number += 1;
    ending = new AbortController();
    const { signal } = ending;
    const issuer = `${id}/${number}`;
    return await startControllerLife({
      ...deps,
      number,
      store: createStoreOfLife({
        inner: deps.store,
        id,
        signal,
        halting,
        fates,
        saw: (commit) => deps.saw(commit, issuer),
      }),
      hosts: heardBy(halting, deps.hosts),
      beside,
      calls: beside.begin(signal, halting),
      clock: halting.clock,
      signal,
    });
  };
  const die = (downMs = 0): void => {
    ending.abort(new DOMException("killed", "AbortError"));
    beside.orphan();
    nextAt = clock.now() + downMs;
    halting.goOn();
    fates.doom.delete(id);
  };

  let life = await start();

  return {
    id,
    get api() {
      return life;
    },
    get alive() {
      return !ending.signal.aborted;
    },
    /** It lives and runs. */
    get answers() {
      return !ending.signal.aborted && !halting.stopped;
    },
    context(): CallContext {
      return {
        signal: ending.signal,
        identity: { role: "scheduler", name: "s1" },
        remainingMs: () => Number.POSITIVE_INFINITY,
        requestId: "",
      } as unknown as CallContext;
    },
    die,
    /** After `skip` more commits; `downMs` later it is started again. */
    dieAtCommit(skip: number, how: CommitFate, downMs: number) {
      if (!ending.signal.aborted) fates.doom.set(id, { skip, how, die: () => die(downMs) });
    },
    async restart() {
      die();
      life = await start();
    },
    /** Its next life, if it is time. */
    async revive(): Promise<boolean> {
      if (!ending.signal.aborted || clock.now() < nextAt) return false;
      life = await start();
      return true;
    },
    stop(ms: number) {
      const { signal } = ending;
      if (signal.aborted) return;
      halting.stop();
      clock.timer(ms, () => {
        if (!signal.aborted) halting.goOn();
      });
    },
    goOn: halting.goOn,
    setProcess(which: number, ready: boolean) {
      const process = beside.processes[which % sockets.length];
      if (process?.ready === false && ready) process.succeed();
      life.directory.set(process?.socket ?? "", ready);
    },
    hang: beside.hang,
    isLeftOpen: beside.isLeftOpen,
    /** Another process takes the place of the one that listens there; what that one had in hand is over. */
    replace(which: 0 | 1) {
      life.directory.set(sockets[which], false);
      beside.end(which);
      life.directory.set(sockets[which], true);
    },
  };
};
