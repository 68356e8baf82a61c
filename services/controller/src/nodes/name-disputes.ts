/** Who wants a name that a live process has, and which processes of a name were replaced by later ones; both bounded, both in memory. */
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import type { PendingLife } from "../domain/node/node.ts";
import { admitCommand } from "../domain/operator-command.ts";
import type { AgentHeader } from "./convert.ts";

export interface NameConflict {
  readonly since: number;
  readonly machineId: string;
  readonly why: string;
}

export interface NameDisputes {
  /** Notes the conflict; the error is for the one who was refused. */
  refuse(header: AgentHeader, why: string): HoldfastError;
  /** The same of a life that a person may admit. */
  hold(name: string, pending: PendingLife, why: string, alive: boolean): HoldfastError;
  of(name: string): NameConflict | undefined;
  /** Names of which nobody was refused for so long. */
  settle(ms: number): readonly string[];
  replaced(name: string): ReadonlySet<string>;
  noteReplaced(name: string, instance: string): void;
}

const rememberedInstances = 16;

export const createNameDisputes = ({ clock, log }: { readonly clock: Clock; readonly log: Logger }): NameDisputes => {
  const conflicts = new Map<string, NameConflict & { readonly at: number }>();
  const replaced = new Map<string, Set<string>>();
  /** The life of each name that was told in the log last. */
  const held = new Map<string, string>();

  return {
    refuse(header, why) {
      const before = conflicts.get(header.name);
      const since = before?.since ?? clock.now();
      conflicts.set(header.name, { since, machineId: header.machineId, why, at: clock.monotonic() });
      if (before === undefined)
        log.warn("two live agents use one name; give one of them another", {
          node: header.name,
          machine_id: header.machineId,
          why,
        });
      return new HoldfastError({
        kind: "already_exists",
        reason: "NODE_CONFLICT",
        message: `node ${header.name}: ${why}; give one of the two another name, or stop it and repeat once no controller has had its link for a grace (HOLDFAST_LINK_GRACE)`,
        metadata: { node: header.name, machine_id: header.machineId },
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
    of: (name) => conflicts.get(name),
    settle(ms) {
      const settled = [...conflicts].filter(([, { at }]) => clock.monotonic() - at > ms).map(([name]) => name);
      for (const name of settled) conflicts.delete(name);
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
