import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { checkId } from "../../domain/limits.ts";
import type { NodeView } from "../../ports.ts";
import { isSilent } from "../../records/grant-facts.ts";
import { storeUnvetted } from "../errors.ts";
import { checkReason, drainViewOf, type NodeCommandDeps, nodeInUse } from "./drain-node.ts";
import type { Consequence, ForgetNodeInput, Forgotten, NodeCommands } from "./node-model.ts";
import { notSuspect } from "./not-suspect.ts";

export const validateForget = ({ name, reason }: ForgetNodeInput): void => {
  const violations = [...checkId("name", name), ...checkReason(reason)];
  if (violations.length > 0) throw invalidArgument(violations);
};

const consequenceOf = ({ record: { name, machineId, nodeEpoch, plugins, drain } }: NodeView): Consequence => ({
  effects: [
    `node ${name} (machine ${machineId}, incarnation ${nodeEpoch}) is in no list any more, and its name is free`,
    ...(plugins.length === 0 ? [] : [`${plugins.length} plugin instances that it had are no longer known`]),
    ...(drain === undefined ? [] : ["it is drained no more: an agent that registers under the name gets claims"]),
  ],
  risks: ["mounts on that host that no record explains are looked for no more until an agent registers there again"],
});

/**
 * Takes a node out of the records that holds nothing. That nothing has a claim, an attachment or a bar there is compared by the very
 * commit, so that no claim which is granted meanwhile is ever on a node that nobody knows; and only in a store that is vetted, since one
 * that lost writes may have lost what is on the node (I8).
 */
export const forgetNodeCommand =
  (deps: NodeCommandDeps): NodeCommands["forgetNode"] =>
  async (input, { who, why }) => {
    validateForget(input);
    const { name, dryRun, reason } = input;
    const { nodes, clock, gate } = deps;
    const node = nodes.get(name);
    if (node === undefined) return gone(name);
    // Records that may be older than what the node was given prove nothing about it.
    if (!gate.state().open) throw storeUnvetted(gate.state().reason);
    if (!isSilent(node)) throw notSuspect(node);
    const view = await drainViewOf(deps, node);
    if (view.remainingCount + view.queuedCount > 0) throw nodeInUse(view);
    const consequence = { ...consequenceOf(node), absent: false };
    if (dryRun) return consequence;
    const outcome = await nodes.forget(
      name,
      (record) => {
        // It came back while it was being judged.
        const now = nodes.get(name);
        if (now !== undefined && (!isSilent(now) || record.instance !== node.record.instance)) throw notSuspect(now);
        const { drain: _over, ...rest } = record;
        const text = reason === "" ? why : `${why}: ${reason}`;
        return { ...rest, plugins: [], forgottenAt: clock.now(), changedBy: { who, why: text, at: clock.now() } };
      },
      { index: "claim-node", value: name },
    );
    if (outcome === "in use") throw nodeInUse(await drainViewOf(deps, node));
    return outcome === "unknown" ? gone(name) : consequence;
  };

const gone = (name: string): Forgotten => ({
  effects: [`there is no node ${name}: nothing to do`],
  risks: [],
  absent: true,
});
