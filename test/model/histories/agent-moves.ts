/** What agents do: they promise, follow orders, tell what they hold, and register. */

import { judgeVetting, type Vetting, withPromise } from "@holdfast/model/vetting";
import { isOfAnotherTime } from "../../../services/controller/src/domain/claim/permit.ts";
import { isFenced } from "../../../services/controller/src/domain/node/fence.ts";
import { isSameLife } from "../../../services/controller/src/domain/node/node-life.ts";
import { mayBeAlive, standingOn } from "../../../services/controller/src/domain/node/standing.ts";
import { rosterLine } from "../../../services/controller/src/gate/node-roster.ts";
import { admitNode } from "../../../services/controller/src/nodes/admit-node.ts";
import type { AgentHeader } from "../../../services/controller/src/nodes/convert.ts";
import { judgePromise } from "../../../services/node-agent/src/domain/promise.ts";
import type { Go, State } from "../search/search.ts";
import { wholeRecord } from "../volume/plain-record.ts";
import { connected, controllerAt, controllersOf, hostsOf, pastOf, places, withSite } from "./history-places.ts";
import type { HistoryRules } from "./history-rules.ts";
import type { Controller, Host, Order, OrderReply, Past, PlainNode, Site } from "./history-types.ts";
import { plainNode, wholeNode } from "./plain-node.ts";

export interface Followed {
  readonly host: Host;
  readonly past: Past;
  readonly answer: OrderReply;
}

export const createAgentMoves = ({ one, idOf, once, handled }: HistoryRules) => {
  /** undefined: nobody promises a number so far away. */
  const promise = (host: Host, asked: Vetting): Host | undefined => {
    const { kind } = judgePromise(host.promised, asked);
    if (kind === "leap") return undefined;
    return kind === "known" ? host : one({ ...host, promised: one(withPromise(host.promised, asked)) });
  };

  /** What is wrong with what an agent did, whatever it was asked. */
  const wrongWith = (before: Host, after: Host, order: Order, past: Past): string | undefined => {
    const { name } = before;
    for (const uid of before.mounted)
      if (!after.mounted.includes(uid) && !past.unwanted.includes(uid))
        return `[I2] ${uid} is unmounted on ${name}, and nobody gave it up`;
    const verdict = judgeVetting(before.promised, order.vetting);
    const changes = idOf(after.volume ?? {}) !== idOf(before.volume ?? {});
    if ((verdict === "older" || verdict === "other") && changes)
      return `[I8] ${name} follows an order of vetting ${order.vetting.uid}, and promised ${before.promised.uid}`;
    for (const [uid, { facts }] of Object.entries(after.volume?.claims ?? {})) {
      const epoch = `${facts.epoch.gen}.${facts.epoch.ctr}`;
      const other = past.used[epoch];
      if (other !== undefined && other !== uid) return `[I1] epoch ${epoch} was given to ${other} and to ${uid}`;
    }
    return undefined;
  };

  const follow = (host: Host, order: Order, past: Past): Followed => {
    const promising = promise(host, order.vetting);
    if (promising === undefined) return { host, past, answer: order.kind === "permit" ? "uncertain" : "pending" };
    const { host: after, answer, reason } = handled(promising, promising.promised, order);
    const { volume: _before, ...rest } = promising;
    const { volume, mounted } = after;
    const next = one<Host>({
      ...rest,
      mounted: one([...mounted]),
      ...(volume === undefined ? {} : { volume: one(volume) }),
    });
    const used = { ...past.used };
    for (const [uid, { facts }] of Object.entries(volume?.claims ?? {}))
      used[`${facts.epoch.gen}.${facts.epoch.ctr}`] ??= uid;
    const wrong = past.wrong ?? wrongWith(host, next, order, past);
    const told = one<Past>({ ...past, used: one(used), ...(wrong === undefined ? {} : { wrong }) });
    // As the gateway takes it: what comes at another time learns nothing for certain.
    const late: OrderReply = order.kind === "permit" ? "uncertain" : "pending";
    return { host: next, past: told, answer: isOfAnotherTime(reason ?? "") ? late : (answer as OrderReply) };
  };

  const headerOf = (host: Host): AgentHeader => ({
    name: host.name,
    machineId: host.machine,
    bootId: host.boot,
    instance: host.instance,
    journalUid: host.journal,
    lockId: host.lock,
    hostIdentity: host.identity ?? "",
    version: "0.1.0",
    verificationScope: "host",
    nodeEpoch: host.nodeEpoch,
    clusterUid: "cell",
    fingerprintRevision: 1,
  });

  const isProved = ({ meta }: Site, { ahead }: Controller): boolean => meta.vetted && ahead === undefined;

  /** What becomes of a process that asks to speak for its node. */
  const admission = (host: Host, controller: Controller, site: Site) => {
    const before = site.nodes[host.name];
    const standing = isProved(site, controller);
    const key = `${idOf(host)}|${before === undefined ? "" : idOf(before)}|${idOf(site.volume)}|${standing}`;
    const linked = before !== undefined && controller.links[host.name] === before.instance;
    return once(`admit|${key}|${linked}|${controller.replaced.join()}`, () => {
      const header = headerOf(host);
      const record = before && wholeNode(before);
      const verdict = admitNode(
        header,
        wholeNode({ name: host.name, nodeEpoch: 1, state: "READY", instance: "" }).plugins,
        record && {
          record,
          alive: mayBeAlive(record, linked),
          replaced: new Set(controller.replaced),
          standing: isSameLife(record, { ...header })
            ? 0
            : standing
              ? standingOn(wholeRecord(site.volume.record), host.name)
              : undefined,
        },
        0,
      );
      return verdict.kind === "conflict"
        ? { kind: verdict.kind, node: undefined }
        : { kind: verdict.kind, node: one(plainNode(verdict.record)) };
    });
  };

  /** An agent takes what a controller answered: its epoch never goes back, and who answers with an older one lifts no quarantine. */
  const answered = (host: Host, node: PlainNode): Host => {
    const { quarantined = false, ...rest } = host;
    const fenced = isFenced(node) || (node.nodeEpoch < host.nodeEpoch && quarantined);
    const nodeEpoch = Math.max(host.nodeEpoch, node.nodeEpoch);
    return one<Host>({ ...rest, nodeEpoch, ...(fenced ? { quarantined: true } : {}) });
  };

  const withName = ({ names }: Controller, { name, nodeEpoch }: PlainNode): readonly string[] => {
    const line = rosterLine(name, nodeEpoch);
    return names.includes(line) ? names : one([...names, line].sort());
  };

  const register = (state: State, go: Go): void => {
    for (const [place, host] of hostsOf(state)) {
      if (!host.up || host.cut) continue;
      for (const [n, controller] of controllersOf(state)) {
        const site = controller.up ? connected(state, controller) : undefined;
        if (site === undefined || controller.ahead === "unnoticed") continue;
        const before = site.nodes[host.name];
        const { kind, node } = admission(host, controller, site);
        if (node === undefined) continue;
        const nodes =
          before !== undefined && idOf(node) === idOf(before) ? site.nodes : one({ ...site.nodes, [host.name]: node });
        const changed = withSite(controller.at, { nodes });
        if (kind === "pending") {
          if (nodes !== site.nodes) go("a life waits for a word", `${host.instance} at c${n}`, changed);
          continue;
        }
        const after = answered(host, node);
        const links = one({ ...controller.links, [host.name]: host.instance });
        const replaced =
          before === undefined || before.instance === host.instance || controller.replaced.includes(before.instance)
            ? controller.replaced
            : one([...controller.replaced, before.instance].sort());
        const { [host.name]: _known, ...kept } = controller.kept;
        const names = withName(controller, node);
        const knows = one<Controller>({ ...controller, links, replaced, names, kept: one(kept) });
        if (nodes === site.nodes && idOf(after) === idOf(host) && idOf(knows) === idOf(controller)) continue;
        // Each controller of the store hears of it.
        const heard = controllersOf(state).flatMap(([m, other]) =>
          m !== n && other.up && other.at === controller.at && other.run === controller.run
            ? [[controllerAt(m), one<Controller>({ ...other, names: withName(other, node) })] as const]
            : [],
        );
        go("an agent registers", `${host.instance} at c${n}`, {
          ...changed,
          ...Object.fromEntries(heard),
          [place]: after,
          [controllerAt(n)]: knows,
        });
      }
    }
  };

  /** What was given up by its sender arrives, or does not. */
  const late = (state: State, go: Go): void => {
    for (const [place, host] of hostsOf(state)) {
      const { late: order, ...rest } = host;
      if (order === undefined) continue;
      const waiting = one<Host>(rest);
      const words = `${order.kind} of ${order.claim} under ${order.vetting.uid} on ${host.instance}`;
      go("lose a late order", words, { [place]: waiting });
      if (!host.up) continue;
      const { host: after, past, answer } = follow(waiting, order, pastOf(state));
      go("a late order arrives", `${words}: ${answer}`, { [place]: after, [places.past]: past });
    }
  };

  return { promise, follow, register, late };
};

export type AgentMoves = ReturnType<typeof createAgentMoves>;
