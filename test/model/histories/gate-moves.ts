/** How a controller looks at its store: each question of the product's look is answered by what the state has. */
import type { Inventory } from "../../../services/controller/src/domain/claim/permit.ts";
import type { StoreIdentity } from "../../../services/controller/src/domain/store-types.ts";
import type { Go, State } from "../search/search.ts";
import type { AgentMoves } from "./agent-moves.ts";
import { lost } from "./awaited.ts";
import { beginIn, identityOf, markIn } from "./commit-rules.ts";
import { isCounted } from "./commits.ts";
import { comparedAs, freshVetting, type GateOutput, type GateQuestion } from "./gate-run.ts";
import {
  connected,
  controllerAt,
  controllersOf,
  pastOf,
  places,
  reached,
  type Two,
  withSite,
} from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Host, PlainNode, Site, Trace } from "./history-types.ts";
import { viewOf, wholeNode } from "./plain-node.ts";

/** The nodes as the controller knew them when the store told who it is: whom the look asks. */
interface Told {
  readonly identity: StoreIdentity;
  readonly nodes: readonly PlainNode[];
  readonly links: Controller["links"];
  readonly names: Controller["names"];
}

/** What leads to the next state, in the words of the schedule. */
type Move = Parameters<Go>;

/** The newest answer of the store about itself. */
const toldIn = (trace: Trace): Told | undefined => {
  const newest = Object.keys(trace).findLast((name) => name.startsWith("identity"));
  return newest === undefined ? undefined : (trace[newest] as Told);
};

export const createGateMoves = (rules: HistoryRules, { promise }: AgentMoves) => {
  const { one } = rules;

  const rosterOf = ({ nodes }: Site, { kept }: Controller): readonly PlainNode[] =>
    one(Object.values({ ...nodes, ...kept }));

  /** Answers of the store as the gate wants them: the nodes beside an identity are the model's. */
  const run = (controller: Controller, trace: Trace): GateOutput => {
    const told = toldIn(trace);
    const answers = Object.fromEntries(
      Object.entries(trace).map(([name, answer]) => [
        name,
        name.startsWith("identity") ? (answer as Told).identity : answer,
      ]),
    );
    const views = (told?.nodes ?? []).map((node) => viewOf(node, told?.links ?? {}));
    return rules.gate(
      {
        trace: answers,
        nodes: views,
        knows: controller.knows,
        generation: controller.generation,
        names: told?.names ?? controller.names,
        vetting: controller.vetting,
      },
      `${rules.idOf(trace)}`,
    );
  };

  const isRecorded = (host: Host, node: PlainNode): boolean =>
    host.journal === node.journalUid && host.boot === node.bootId;

  /** The state after an answer, with the look as far as it goes then. */
  const answered = (
    controller: Controller,
    trace: Trace,
    name: string,
    answer: unknown,
    more: Partial<Controller> = {},
  ): Controller => {
    const next = one({ ...trace, [name]: answer });
    const { check: _before, ...rest } = { ...controller, ...more };
    const { over, open, vetting, knows, generation, names } = run(one<Controller>(rest), next);
    const after = {
      ...rest,
      vetting: one(vetting),
      knows: one([...knows]),
      generation,
      names: one([...new Set([...names, ...rest.names])].sort()),
    };
    return one<Controller>(over ? { ...after, open } : { ...after, check: next });
  };

  const answer = (state: State, n: Two, controller: Controller, site: Site, question: GateQuestion): Move => {
    const trace = controller.check ?? {};
    const place = controllerAt(n);
    const { name } = question;
    const told = (what: unknown, more: Partial<Controller> = {}): Record<number, object> => ({
      [place]: answered(controller, trace, name, what, more),
    });
    switch (question.kind) {
      case "identity": {
        const identity = one(identityOf(site.meta, controller));
        const high = Math.max(controller.high, site.meta.gen);
        const ahead = controller.ahead === undefined ? {} : { ahead: "noticed" as const };
        const what = one<Told>({
          identity,
          nodes: rosterOf(site, controller),
          links: controller.links,
          names: controller.names,
        });
        // Where nobody was asked yet, only the newest answer counts.
        const asked = Object.keys(trace).some((key) => key.startsWith("promise"));
        const [before, as] = asked ? [trace, name] : [{}, "identity 1"];
        return ["look at the store", `c${n}`, { [place]: answered(controller, before, as, what, { high, ...ahead }) }];
      }
      case "begin": {
        const past = pastOf(state);
        const uid = question.vetting.uid === freshVetting ? `v${past.vettings + 1}` : question.vetting.uid;
        const meta = beginIn(site.meta, question.runId, { gen: question.vetting.gen, uid });
        if (meta === undefined) return ["a vetting does not begin", `c${n}`, told(lost)];
        if (meta === site.meta) return ["a vetting was begun by another", `c${n}`, told("older")];
        const { ahead: _seen, ...seesAll } = answered(controller, trace, name, "ok");
        const changed = {
          ...seeingAll(state, n, controller),
          [place]: one<Controller>(seesAll),
          ...withSite(controller.at, { meta: one(meta) }),
          [places.past]: one({ ...past, vettings: past.vettings + 1 }),
        };
        return ["a vetting begins", `${meta.gen} as ${meta.uid} by c${n}`, changed];
      }
      case "mark": {
        const meta = markIn(site.meta, question.runId, question.vetting);
        if (meta === undefined) return ["a vetting is overtaken", `c${n}`, told(lost)];
        const high = Math.max(controller.high, meta.gen);
        const changed = { ...told("ok", { high }), ...withSite(controller.at, { meta: one(meta) }) };
        return ["the store is vetted", `${meta.gen} as ${meta.uid} by c${n}`, changed];
      }
      case "promise": {
        const { node, vetting } = question;
        const found = reached(state, controller, node);
        const after = found && promise(found[1], vetting);
        if (after === undefined) return ["an agent does not promise", `${node} to c${n}`, told(lost)];
        const promised = told(one({ vetting: after.promised, openCalls: one([]) }));
        const words = `${vetting.gen} of ${vetting.uid} to c${n}: ${node} has promised ${after.promised.uid}`;
        return ["promise a generation", words, { ...promised, [found?.[0] ?? 0]: after }];
      }
      case "inventory": {
        const node = nodeIn(trace, question.node);
        const host = reached(state, controller, node.name)?.[1];
        if (host === undefined || !isRecorded(host, node))
          return ["an agent does not tell what it holds", `${node.name} to c${n}`, told(lost)];
        return ["tell what is held", `${node.name} to c${n}`, told(one(rules.inventory(host)))];
      }
      case "note": {
        const asked = name.replace("note", "inventory");
        const inventory = trace[asked] as Inventory;
        const node = nodeIn(trace, question.node);
        const volume = one(rules.noted(node, inventory, site.volume));
        const shown = rules.compared(node, inventory, volume, () => comparedAs(wholeNode(node), inventory, volume));
        const short = one({ ...trace, [asked]: one(shown.inventory) });
        const changed = {
          ...withSite(controller.at, { volume }),
          [place]: answered(controller, short, name, one(shown.stored), since(state)),
        };
        return ["compare what is held", `${node.name} by c${n}`, changed];
      }
    }
  };

  /** A vetting begins with a number above all commits that anybody has seen. */
  const seeingAll = (state: State, n: Two, { at }: Controller): Record<number, object> =>
    Object.fromEntries(
      controllersOf(state).flatMap(([m, { ahead, ...other }]) =>
        m === n || other.at !== at || ahead === undefined ? [] : [[controllerAt(m), one<Controller>(other)]],
      ),
    );

  /** A commit that others may have lost sight of. */
  const since = (state: State): Partial<Controller> => (isCounted(state) ? { since: true } : {});

  const nodeIn = (trace: Trace, name: string): PlainNode => {
    const node = toldIn(trace)?.nodes.find((known) => known.name === name);
    if (node === undefined) throw new Error(`the look has not heard of ${name}`);
    return node;
  };

  return (state: State, go: Go): void => {
    for (const [n, controller] of controllersOf(state)) {
      const site = controller.up && !controller.open ? connected(state, controller) : undefined;
      if (site === undefined) continue;
      const { questions } = run(controller, controller.check ?? {});
      for (const question of questions) go(...answer(state, n, controller, site, question));
    }
  };
};
