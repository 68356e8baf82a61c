import { foreignAbandoned, speaksForHold } from "../../domain/attachment/foreign-hold.ts";
import type { ClaimState } from "../../domain/claim/claim.ts";
import type { Moment } from "../../domain/moment.ts";
import { abandonable, claimAbandoned } from "../../domain/repair/repair-change.ts";
import { type ForeignHold, type VolumeRecord, volumeKey } from "../../domain/volume/volume.ts";
import type { Nodes } from "../../ports.ts";
import { claimNotFound } from "../errors.ts";
import { refuse } from "../volume/validate-volume.ts";
import { type AgentWord, type AgentWordDeps, agentEffect, askAgent } from "./agent-word.ts";
import { nodeBarred, repairNotApplicable } from "./repair-errors.ts";
import type { AbandonClaimInput, Verb } from "./repair-model.ts";
import { type Decision, type RepairVerbDeps, runVolumeVerb } from "./repair-verb.ts";
import { checkClaimKey, checkEvidence, checkRepair } from "./validate-repair.ts";

const otherMachine = { kind: "other-machine" } as const satisfies AgentWord;

interface NotedHold {
  readonly hold: ForeignHold;
  /** Of a life that the registered one says nothing of. */
  readonly other: boolean;
}

const foreignOf = (volume: VolumeRecord, uid: string, nodes: Pick<Nodes, "get">): NotedHold | undefined => {
  const found = (volume.foreign ?? []).flatMap((hold): readonly NotedHold[] => {
    if (hold.claimUid !== uid) return [];
    const record = nodes.get(hold.node)?.record;
    return [{ hold, other: record !== undefined && !speaksForHold(record, hold) }];
  });
  // No agent can be heard of what another life had: it comes first, and what the registered one holds is asked for again.
  return found.find(({ other }) => other) ?? found[0];
};

interface Seen {
  readonly word: AgentWord;
  /** The tombstone of a claim that the store does not know otherwise, or a claim that waits for its detach: its agent has not let go yet. */
  readonly given: { readonly state: ClaimState } | undefined;
}

/** A claim that only an agent knows. An agent that is heard is told to let go, and the volume is barred until it has. */
const abandonForeign = (
  volume: VolumeRecord,
  hold: ForeignHold,
  { word, given }: Seen,
  { workload, alias, evidence }: AbandonClaimInput,
  at: Moment,
): Decision => {
  const { node, claimUid } = hold;
  if (hold.workload !== workload || hold.alias !== (alias === "" ? volume.id : alias))
    throw claimNotFound(volume, workload, alias);
  const heard = word.kind === "holds" || word.kind === "clean";
  const { namespace, id, uid, plugin, externalId } = volume;
  if (given !== undefined && heard)
    throw repairNotApplicable(
      `claim ${claimUid} of workload ${workload} on volume ${volumeKey(volume)}`,
      given.state,
      `it is over, and node ${node} is told to unmount it; the volume is granted again when it has`,
      { namespace, volume: id, node },
    );
  // Said in other words: one that was asked for while the agent was heard gives nothing away when it is not.
  const stopped = `workload ${workload} does not run on node ${node} and never will again under claim ${claimUid}`;
  return {
    change: foreignAbandoned(volume, hold, { heard, evidence, ended: given !== undefined }, at),
    confirmWith: heard ? stopped : `${stopped}, and nothing of it is mounted there`,
    effects: [
      heard
        ? `the agent of node ${node} is told to unmount claim ${claimUid}; the volume is granted again when it has`
        : `the volume is ${given?.state === "DETACHING" ? `detached from node ${node}` : "granted again at once"}; node ${node} is told to unmount claim ${claimUid} if it ever speaks again`,
      agentEffect(word, node),
    ],
    risks: [
      `if workload ${workload} still runs on node ${node}, it loses the volume, or writes beside the next holder`,
    ],
    subject: { namespace, volume: id, volumeUid: uid, plugin, externalId, node, workload, claimUid },
  };
};

/** A person's word in the place of the agent's proof of release. An agent that can still speak for itself is heard first. */
export const abandonClaimCommand =
  (deps: RepairVerbDeps & AgentWordDeps): Verb<AbandonClaimInput> =>
  async (input, caller) => {
    refuse([...checkClaimKey(input), ...checkEvidence(input.evidence), ...checkRepair(input)]);
    const { namespace, volume: id, workload, claimUid } = input;
    const alias = input.alias === "" ? id : input.alias;
    const ref = { namespace, id };
    const what = `claim ${claimUid} of workload ${workload} on volume ${volumeKey(ref)}`;
    return await runVolumeVerb(deps, {
      verb: "AbandonClaim",
      ref,
      asked: input,
      caller,
      subject: { namespace, volume: id, workload, claimUid },

      async look(volume) {
        const noted = foreignOf(volume, claimUid, deps.nodes);
        const node = noted?.other === true ? noted.hold.node : (volume.claims[claimUid]?.node ?? noted?.hold.node);
        const over =
          volume.claims[claimUid] === undefined
            ? await deps.records.ended({ namespace, volume: id, workload, alias, uid: claimUid })
            : undefined;
        if (node === undefined) {
          if (over === undefined) return undefined;
          throw repairNotApplicable(what, over.state, "it is over", { namespace, volume: id, node: over.node });
        }
        if (noted?.other === true) return { word: otherMachine, given: over };
        const word = await askAgent(deps, node, volume);
        if (volume.claims[claimUid] !== undefined && word.kind === "holds" && word.claimUids.includes(claimUid))
          throw repairNotApplicable(
            what,
            "held by its agent",
            `node ${node} answers and still has it mounted; end what uses it there, and its release goes on by itself`,
            { namespace, volume: id, node },
          );
        return { word, given: over };
      },

      decide(volume, seen: Seen | undefined, at) {
        const claim = volume.claims[claimUid];
        const { hold, other = false } = foreignOf(volume, claimUid, deps.nodes) ?? {};
        const lets = claim === undefined || claim.state === "DETACHING" || other;
        if (lets && hold !== undefined && seen !== undefined) {
          const word = other ? otherMachine : seen.word;
          return abandonForeign(volume, hold, { word, given: claim ?? seen.given }, input, at);
        }
        if (claim === undefined || claim.workload !== workload || claim.alias !== alias || seen === undefined)
          throw claimNotFound(ref, workload, alias);
        const { node } = claim;
        const barred = volume.bars.find((b) => b.node === node);
        if (barred !== undefined) throw nodeBarred(volume, barred);
        const cell = abandonable[claim.state];
        if (cell !== "apply")
          throw repairNotApplicable(what, claim.state, cell.instead, { namespace, volume: id, node });
        const change = claimAbandoned(volume, claim, input.evidence, at);
        const detaches = change.volume?.attachments[node]?.state === "DETACHING";
        return {
          change,
          confirmWith: `workload ${workload} does not run on node ${node} and never will again under claim ${claimUid}`,
          effects: [
            `${what} on node ${node} ends ${change.ended.length > 0 ? "at once" : "with the detach"}`,
            detaches
              ? `the volume is detached from node ${node}`
              : `other claims of node ${node} keep the volume attached`,
            agentEffect(seen.word, node),
          ],
          risks: [
            `if workload ${workload} still runs on node ${node}, it and the next holder write at the same time, and the file system is lost`,
          ],
          subject: {
            namespace,
            volume: id,
            volumeUid: volume.uid,
            plugin: volume.plugin,
            externalId: volume.externalId,
            node,
            workload,
            claimUid,
          },
        };
      },
    });
  };
