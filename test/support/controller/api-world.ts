/**
 * Whole controllers, handlers to store, over the simulated storage in this process and hosts that outlive them, on a clock that the test
 * moves. Each dies at any commit, or stands still for a while; what it had in memory is gone with its life, and nothing of that life
 * reaches the store any more. Several of them share one store, one backend and the agents; each has processes of the plugin beside it.
 */

import { createSqliteStore } from "@holdfast/controller/store/sqlite/sqlite-store";
import type { CsiMethod } from "@holdfast/csi/methods";
import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { isAbort } from "@holdfast/shared/async/signals";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { createTracing } from "@holdfast/shared/tracing";
import { createBackend } from "@holdfast/sim-plugin/backend/backend";
import type { NodeSettings } from "@holdfast/sim-plugin/backend/settings";
import { vetAnew } from "../../../services/controller/src/store/vet-anew.ts";
import { type ControllerProcess, createControllerProcess } from "./controller-process.ts";
import { createSimHosts, type LinkFault, nodeIdOf } from "./sim-hosts.ts";
import type { WayFault } from "./sim-transport.ts";
import { simPlugin } from "./snapshot-world.ts";
import type { CommitFate, CommitFates } from "./store-of-life.ts";
import { createTakeoverBook } from "./takeovers.ts";

export interface ApiWorldOptions {
  readonly nodes: Readonly<Record<string, NodeSettings>>;
  /** One, unless told otherwise. */
  readonly controllers?: readonly [string, ...string[]];
  readonly random?: () => number;
  readonly snapshotPolls?: number;
  readonly nodeExpansionRequired?: boolean;
}

export type ApiWorld = Awaited<ReturnType<typeof createApiWorld>>;

export const createApiWorld = async (options: ApiWorldOptions) => {
  const clock = createManualClock();
  let uuids = 0;
  const ids = {
    uuid: () => {
      uuids += 1;
      return `00000000-0000-4000-8000-${uuids.toString(16).padStart(12, "0")}`;
    },
    random: options.random ?? (() => 0.5),
  };
  const log = createMemoryLogger();
  const tracing = createTracing("test");
  const sqlite = createSqliteStore({ file: ":memory:", now: clock.now, uuid: ids.uuid });
  await vetAnew(sqlite);
  const names = Object.keys(options.nodes);
  const backend = createBackend({
    clock: () => new Date(clock.now()),
    judgesArrivals: true,
    ...(options.snapshotPolls === undefined ? {} : { snapshotPolls: options.snapshotPolls }),
    ...(options.nodeExpansionRequired === undefined ? {} : { nodeExpansionRequired: options.nodeExpansionRequired }),
    nodes: Object.fromEntries(names.map((name) => [nodeIdOf(name), options.nodes[name] ?? {}])),
  });
  let pick: ((method: CsiMethod) => WayFault | undefined) | undefined;
  let change: ((method: CsiMethod, response: unknown) => unknown) | undefined;
  const hosts = createSimHosts(backend, names, clock);
  const machines = new Map(names.map((node) => [node, { boot: 1, journal: 1, revision: 1, healthy: true, known: 0 }]));
  const gate = { open: true, listeners: new Set<() => void>() };
  const fates: CommitFates = { lose: [], doom: new Map() };
  const takeovers = createTakeoverBook(clock.now);
  /** What goes wrong in the background, in the words of whoever noticed. */
  const broken: unknown[] = [];

  const controllers: ControllerProcess[] = [];
  const controllerIds = options.controllers ?? ["c1"];
  for (const id of controllerIds)
    controllers.push(
      await createControllerProcess({
        id,
        shared: controllerIds.length > 1,
        store: sqlite,
        hosts,
        backend,
        clock,
        pick: (method) => pick?.(method),
        altered: (method, response) => change?.(method, response) ?? response,
        gate,
        fates,
        saw: takeovers.saw,
        ids,
        log,
        tracing,
        broken,
      }),
    );
  /** The one that is asked when nothing else is said: one that answers, if there is one. */
  const first = (): ControllerProcess => {
    const found = controllers.find(({ answers }) => answers) ?? controllers[0];
    if (found === undefined) throw new Error("there is no controller");
    return found;
  };

  const headerOf = (node: string) => {
    const machine = machines.get(node);
    if (machine === undefined) throw new Error(`there is no node ${node}`);
    const { boot, journal } = machine;
    return {
      name: node,
      machineId: `machine-${node}`,
      bootId: `boot-${node}-${boot}`,
      lockId: "",
      hostIdentity: "",
      instance: `agent-${node}-${boot}`,
      journalUid: `journal-${node}-${journal}`,
      version: "0.1.0",
      verificationScope: "host" as const,
      nodeEpoch: machine.known,
      clusterUid: "",
      fingerprintRevision: machine.revision,
    };
  };
  const pluginOf = (node: string) => {
    const settings = options.nodes[node];
    return {
      name: simPlugin,
      version: "1.0.0",
      instance: `sim-${node}`,
      role: "NODE" as const,
      health: machines.get(node)?.healthy === false ? ("UNHEALTHY" as const) : ("HEALTHY" as const),
      healthMessage: "",
      nodeId: nodeIdOf(node),
      maxVolumes: settings?.maxVolumes ?? 0,
      topology: settings?.topology ?? {},
      capabilities: {},
    };
  };

  const unlink = (node: string, { api }: ControllerProcess): void => {
    const instance = api.links.get(node);
    api.links.delete(node);
    if (instance !== undefined) api.registry.unlinked(node, instance, "the connection was closed");
  };

  /** What an agent does as soon as it can: it dials whom it has no stream to, registers there, and reports what has changed. */
  const meetOne = async (node: string, controller: ControllerProcess): Promise<void> => {
    const machine = machines.get(node);
    if (machine === undefined || !controller.answers) return;
    if (hosts.silent(node) || controller.api.links.get(node) !== headerOf(node).instance) unlink(node, controller);
    if (hosts.silent(node)) return;
    const { registry, links, linked } = controller.api;
    try {
      const { instance, fingerprintRevision: revision } = headerOf(node);
      const base = { node, instance, baseRevision: revision, revision, changed: [], removed: [] };
      const { known } = await registry.report({ ...base, accepting: true, message: "" });
      if (known && links.has(node)) return;
      const record = await registry.register(headerOf(node), [pluginOf(node)]);
      registry.linked(node, instance);
      links.set(node, instance);
      linked(node);
      machine.known = record.nodeEpoch;
      hosts.setNodeEpoch(node, record.nodeEpoch);
    } catch (error) {
      if (error instanceof HoldfastError && error.reason === "NODE_PENDING") {
        // The machine was booted: a person says so.
        await registry.change(node, (record) =>
          record.pending === undefined ? record : { ...record, admitted: record.pending.life },
        );
        return;
      }
      if (!isAbort(error) && controller.alive && !(error instanceof HoldfastError)) broken.push(error);
    }
  };
  const meet = (node: string) => Promise.all(controllers.map((controller) => meetOne(node, controller)));
  /** Moves the clock as long as the work goes on: a decision pauses between its rounds. */
  const inTime = async (work: Promise<unknown>): Promise<void> => {
    let over = false;
    const end = () => {
      over = true;
    };
    work.then(end, end);
    for (await clock.advance(0); !over; ) await clock.advance(1);
    await work;
  };
  const meetings = (): Promise<void> => inTime(Promise.all(names.map(meet)));
  await meetings();

  return {
    clock,
    backend,
    hosts,
    log,
    broken,
    names,
    controllers,
    takeovers,
    first,
    /** Of that one, in the life that it has now; handlers of its services are called as a server would. */
    get api() {
      return first().api;
    },
    context: () => first().context(),
    /** One of them answers. */
    get alive() {
      return first().answers;
    },
    chance(call: typeof pick, between: (() => LinkFault | undefined) | undefined) {
      pick = call;
      hosts.chance(call, between);
    },
    alter(next: typeof change) {
      change = next;
    },
    loseCommits: (...how: readonly CommitFate[]) => void fates.lose.push(...how),
    /** Nothing that was told of commits holds any more, and all run. */
    async recover() {
      fates.doom.clear();
      fates.lose.length = 0;
      for (const controller of controllers) {
        controller.goOn();
        if (!controller.alive) await inTime(controller.restart());
      }
      await meetings();
    },
    async restart(controller: ControllerProcess) {
      await inTime(controller.restart());
      await meetings();
    },
    setGate(open: boolean) {
      gate.open = open;
      for (const listener of [...gate.listeners]) listener();
    },
    async setHealthy(node: string, healthy: boolean) {
      const machine = machines.get(node);
      if (machine === undefined || machine.healthy === healthy) return;
      machine.healthy = healthy;
      machine.revision += 1;
      await inTime(meet(node));
    },
    async reboot(node: string, journalLost: boolean) {
      const machine = machines.get(node);
      if (machine === undefined) return;
      machine.boot += 1;
      if (journalLost) {
        machine.journal += 1;
        machine.known = 0;
      }
      // Until it has registered it takes nobody's orders.
      hosts.setNodeEpoch(node, 0);
      hosts.reboot(node, journalLost);
      await inTime(meet(node));
    },
    /** Time passes, agents dial and report, and a controller that died is started again after a while. */
    async pass(ms: number, step = 5_000) {
      for (let left = ms; left > 0; left -= step) {
        await meetings();
        await clock.advance(Math.min(step, left));
        let revived = false;
        const revive = async (controller: ControllerProcess): Promise<void> => {
          if (await controller.revive()) revived = true;
        };
        await inTime(Promise.all(controllers.map(revive)));
        if (revived) await meetings();
      }
    },
    async close() {
      for (const controller of controllers) controller.die();
      await clock.advance(0);
      await sqlite.close();
    },
  };
};
