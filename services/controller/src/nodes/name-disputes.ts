/** Who asks for a name and is refused, and which processes of a name were replaced by later ones; both bounded, both in memory. */
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { Dispute } from "../domain/node/dispute.ts";
import type { PendingLife } from "../domain/node/node.ts";
import { admitCommand } from "../domain/operator-command.ts";
import type { AgentHeader } from "./convert.ts";

export interface NameDisputes {
  /** Notes the conflict; the error is for the one who was refused. */
  refuse(header: AgentHeader, why: string): HoldfastError;
  /** The same of an agent of another installation. */
  foreign(header: AgentHeader, clusterUid: string): HoldfastError;
  /** The same of a life that a person may admit. */
  hold(name: string, pending: PendingLife, why: string, alive: boolean): HoldfastError;
  of(name: string): Dispute | undefined;
  all(): readonly Dispute[];
  /** That life has the name now, and is refused no more. */
  granted(header: Pick<AgentHeader, "name" | "machineId" | "bootId">): void;
  /** Names of which nobody was refused for so long. */
  settle(ms: number): readonly string[];
  replaced(name: string): ReadonlySet<string>;
  noteReplaced(name: string, instance: string): void;
}

const rememberedInstances = 16;
/** A stranger may ask for any name. */
const mostDisputes = 1_000;

export const createNameDisputes = ({ clock, log }: { readonly clock: Clock; readonly log: Logger }): NameDisputes => {
  const disputes = new Map<string, { readonly dispute: Dispute; readonly at: number }>();
  const replaced = new Map<string, Set<string>>();
  /** The life of each name that was told in the log last. */
  const held = new Map<string, string>();

  const note = (header: AgentHeader, reason: Dispute["reason"], why: string, warning: string): void => {
    const { name: node, machineId, bootId } = header;
    const before = disputes.get(node)?.dispute;
    const same = before?.reason === reason;
    const dispute = { node, reason, since: same ? before.since : clock.now(), machineId, bootId, why };
    disputes.set(node, { dispute, at: clock.monotonic() });
    const [first] = disputes.keys();
    if (disputes.size > mostDisputes && first !== undefined) disputes.delete(first);
    if (!same) log.warn(warning, { node, machine_id: machineId, boot_id: bootId, why });
  };

  return {
    refuse(header, why) {
      note(header, "NODE_CONFLICT", why, "two live agents use one name; give one of them another");
      return new HoldfastError({
        kind: "already_exists",
        reason: "NODE_CONFLICT",
        message: `node ${header.name}: ${why}; give one of the two another name, or stop it and repeat once no controller has had its link for a grace (HOLDFAST_LINK_GRACE)`,
        metadata: { node: header.name, machine_id: header.machineId },
      });
    },
    foreign(header, clusterUid) {
      const { clusterUid: own } = header;
      const why = `it belongs to installation ${own}, this is ${clusterUid}`;
      note(header, "CLUSTER_MISMATCH", why, "an agent of another installation asks here; it is not let in");
      return new HoldfastError({
        kind: "precondition",
        reason: "CLUSTER_MISMATCH",
        message: `the agent of node ${header.name} belongs to installation ${own}, this is ${clusterUid}; point it at its own controllers, or empty the host and its state directory first`,
        metadata: { cluster_uid: own, wanted: clusterUid },
      });
    },
    hold(name, { life, machineId, bootId }, why, alive) {
      if (held.get(name) !== life)
        log.warn(
          "another life asks for the name of a node on which claims stand; a person has to say which is the node",
          {
            node: name,
            life,
            machine_id: machineId,
            boot_id: bootId,
            why,
            clear_with: admitCommand(name, life),
          },
        );
      held.set(name, life);
      return new HoldfastError({
        kind: alive ? "already_exists" : "precondition",
        reason: alive ? "NODE_CONFLICT" : "NODE_PENDING",
        message: `node ${name}: ${why}; nothing that life ${life} says is believed. When the other life is over: ${admitCommand(name, life)}. When life ${life} is a copy: stop its agent, or give it another name`,
        metadata: { node: name, machine_id: machineId, life },
      });
    },
    of: (name) => disputes.get(name)?.dispute,
    all: () => [...disputes.values()].map(({ dispute }) => dispute),
    granted({ name, machineId, bootId }) {
      const dispute = disputes.get(name)?.dispute;
      if (dispute?.machineId === machineId && dispute.bootId === bootId) disputes.delete(name);
    },
    settle(ms) {
      const settled = [...disputes].filter(([, { at }]) => clock.monotonic() - at > ms).map(([name]) => name);
      for (const name of settled) disputes.delete(name);
      return settled;
    },
    replaced: (name) => replaced.get(name) ?? new Set(),
    noteReplaced(name, instance) {
      const set = replaced.get(name) ?? new Set<string>();
      set.add(instance);
      const oldest = set.values().next().value;
      if (set.size > rememberedInstances && oldest !== undefined) set.delete(oldest);
      replaced.set(name, set);
    },
  };
};
