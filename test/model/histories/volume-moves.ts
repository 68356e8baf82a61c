/** What controllers do for the volume: grants, orders to agents and their answers, and what agents hold against the records. */
import type { Step } from "../../../services/controller/src/domain/steps.ts";
import type { Go, State } from "../search/search.ts";
import { recordFor } from "../volume/plain-record.ts";
import type { AgentMoves } from "./agent-moves.ts";
import { type Commits, wordsFor } from "./commits.ts";
import { follows } from "./gate-run.ts";
import {
  connected,
  controllerAt,
  controllersOf,
  hostsOf,
  pastOf,
  places,
  reached,
  type Two,
} from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Host, Order, OrderTask, Past, Site } from "./history-types.ts";
import { viewOf } from "./plain-node.ts";

export const createVolumeMoves = (rules: HistoryRules, { follow }: AgentMoves, { commit }: Commits) => {
  const { one, idOf, planOf } = rules;

  /** [I8] of a grant: who holds the volume has promised the generation of the grant. */
  const granted = (state: State, { meta }: Site, past: Past): Past => {
    for (const [, { name, up, volume, promised }] of hostsOf(state))
      if (up && Object.keys(volume?.claims ?? {}).length > 0 && !follows(meta, promised))
        return one<Past>({
          ...past,
          wrong:
            past.wrong ?? `[I8] granted under vetting ${meta.uid}, which ${name} has not promised and holds the volume`,
        });
    return past;
  };

  const stepOf = (controller: Controller, site: Site, step: Step, task?: OrderTask) => {
    const { open, vetting, links } = controller;
    const planned = task?.record ?? site.volume.record;
    // What it remembers of a node is not what the store has: no grant is committed over that.
    const known = one({ ...site.nodes, ...controller.kept });
    const nodes = Object.values(known).map((node) => viewOf(node, links));
    const ids = [step, planned, site.volume, known, vetting, ...(task === undefined ? [] : [task.node])].map(idOf);
    const seen = nodes.map(({ linked }) => linked).join();
    const before = task === undefined ? undefined : viewOf(task.node, { [task.node.name]: task.node.instance });
    return rules.step(`${ids.join("|")}|${open}|${seen}|${task?.answer ?? ""}`, {
      ...{ step, planned, stored: site.volume, nodes, before, gate: { open, vetting }, answer: task?.answer },
    });
  };

  const steps = (state: State, n: Two, controller: Controller, site: Site, go: Go): void => {
    const plan = planOf(site.volume.record);
    const queue = plan.find((step) => step.do === "grant");
    for (const step of plan) {
      // One try for the whole queue.
      if (step.do === "grant" && step !== queue) continue;
      const asks = step.do === "offer" || step.do === "release";
      if (asks ? controller.task !== undefined : step.do !== "grant" || !controller.open) continue;
      const uid = "uid" in step ? step.uid : "";
      const name = "node" in step ? step.node : (site.volume.record.claims[uid]?.node ?? "");
      const node = controller.kept[name] ?? site.nodes[name];
      const { stored, order, grantedOn } = stepOf(controller, site, step);
      if (grantedOn !== undefined && controller.kept[grantedOn] !== undefined) continue;
      if (order !== undefined && node !== undefined) {
        const instance = controller.links[name];
        if (instance === undefined) continue;
        const record = one(recordFor(site.volume.record, step));
        const sent = one<Order>({ ...order, instance });
        go(`order a ${order.kind}`, `${order.claim} on ${name} by c${n}`, {
          [controllerAt(n)]: one<Controller>({
            ...controller,
            task: one<OrderTask>({ step: one(step), record, node, order: sent }),
          }),
        });
        continue;
      }
      if (stored === undefined) continue;
      const { verdict, changed } = commit(state, n, controller, site, one(stored));
      const past =
        verdict === "done" && step.do === "grant" ? { [places.past]: granted(state, site, pastOf(state)) } : {};
      go(`store ${step.do}${wordsFor[verdict]}`, `${uid} by c${n}`, { ...changed, ...past });
    }
  };

  /** An order on its way, and its answer on its way back. */
  const task = (state: State, n: Two, controller: Controller, go: Go): void => {
    const { task: waiting, ...rest } = controller;
    if (waiting === undefined) return;
    const place = controllerAt(n);
    const idle = one<Controller>(rest);
    const { order, answer, step } = waiting;
    const words = `${order.kind} of ${order.claim} on ${order.node} by c${n}`;
    const found = reached(state, controller, order.node);
    if (answer === undefined) {
      // A call that is made now goes to whoever has the stream now.
      if (found !== undefined) {
        const [at, host] = found;
        const { host: after, past, answer: told } = follow(host, order, pastOf(state));
        go(`follow a ${order.kind}`, `${words}: ${told}`, {
          [at]: after,
          [places.past]: past,
          [place]: one<Controller>({ ...controller, task: one<OrderTask>({ ...waiting, answer: told }) }),
        });
      }
      go("wait no longer", words, { [place]: idle });
      const { left } = pastOf(state);
      const target = found !== undefined && found[1].late === undefined ? found : undefined;
      if ((left.lateOrders ?? 0) > 0 && target !== undefined)
        go("an order is late", words, {
          [place]: idle,
          [target[0]]: one<Host>({ ...target[1], late: one<Order>({ ...order, instance: target[1].instance }) }),
          [places.past]: one({ ...pastOf(state), left: one({ ...left, lateOrders: (left.lateOrders ?? 0) - 1 }) }),
        });
      return;
    }
    const site = connected(state, controller);
    go("lose an answer", words, { [place]: idle });
    if (site === undefined) return;
    const { stored } = stepOf(idle, site, step, waiting);
    if (stored === undefined) {
      go("an answer changes nothing", `${words}: ${answer}`, { [place]: idle });
      return;
    }
    const { verdict, changed } = commit(state, n, idle, site, one(stored));
    go(`store an answer${wordsFor[verdict]}`, `${words}: ${answer}`, changed);
  };

  return (state: State, go: Go): void => {
    for (const [n, controller] of controllersOf(state)) {
      if (!controller.up) continue;
      const site = connected(state, controller);
      if (site !== undefined) {
        steps(state, n, controller, site, go);
      }
      task(state, n, controller, go);
    }
  };
};
