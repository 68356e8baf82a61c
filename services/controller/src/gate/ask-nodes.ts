/** What the nodes say when the store is vetted: each promises the generation, and then tells what it holds. */
import { judgeVetting, maxGenerationStep, showVetting, type Vetting } from "@holdfast/model/vetting";
import { inTurns } from "@holdfast/shared/async/in-turns";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { AgentGateway, OpenCall } from "../agent-ports.ts";
import type { NodeRecord } from "../domain/node/node.ts";
import { compareInventory, type KnownVolumes } from "./compare-inventory.ts";
import { type Finding, type FindingKind, finding } from "./finding.ts";

export interface AskNodesDeps {
  readonly agents: Pick<AgentGateway, "inventory" | "promise">;
  readonly volumes: KnownVolumes;
  readonly knownCalls: () => Promise<ReadonlySet<string>>;
  /** Whether this controller saw that vetting in its store. */
  readonly knows: (vettingUid: string) => boolean;
}

/** What one node said, or all of them. */
export interface Vetted {
  readonly findings: readonly Finding[];
  /** A generation that is promised already, to a vetting that is over; 0 = none is in the way. */
  readonly above: number;
}

/** Agents asked at the same time. */
const abreast = 16;

export const createAskNodes = ({ agents, volumes, knownCalls, knows }: AskNodesDeps) => {
  /** G6; `node` is empty for the calls beside this controller. */
  const lostCalls = async (node: string, calls: readonly OpenCall[]): Promise<readonly Finding[]> => {
    if (calls.length === 0) return [];
    const where = node === "" ? "beside this controller" : `on node ${node}`;
    const known = await knownCalls();
    return calls
      .filter(({ opId }) => !known.has(opId))
      .map(({ plugin, words }) =>
        finding("CALL", `plugin ${plugin} ${where} may have a call open that the store does not know: ${words}`, node),
      );
  };

  /** G1, G4 */
  const hear = async (node: NodeRecord, vetting: Vetting, signal: AbortSignal): Promise<Vetted> => {
    let step: FindingKind = "NOT_PROMISED";
    try {
      const promised = await agents.promise(node, vetting, signal);
      const verdict = judgeVetting(vetting, promised.vetting);
      if (verdict !== "same" && verdict !== "older") {
        const { gen, uid } = promised.vetting;
        if (gen - vetting.gen > maxGenerationStep) {
          const error = `node ${node.name} has promised generation ${gen}, which no vetting has reached: see "numbers near 2^53" in docs/repair.md`;
          return { findings: [finding("OTHER_HISTORY", error, node.name)], above: 0 };
        }
        if (uid === "" || knows(uid)) return { findings: [], above: gen }; // G5
        const other = `OTHER_HISTORY: node ${node.name} has promised generation ${showVetting(promised.vetting)}, which this controller never saw in its store: another history of it may be in use; end that one, or take this one for the true one (holdfast repair vet --accept)`;
        return { findings: [finding("OTHER_HISTORY", other, node.name)], above: gen };
      }
      step = "NOT_TOLD";
      const inventory = await agents.inventory(node, signal);
      // Before anything is granted, by whatever way the gate opens.
      if (inventory.journalUid === node.journalUid) await volumes.noteForeign(node, inventory);
      const different = await compareInventory(node, inventory, volumes);
      return { findings: [...(await lostCalls(node.name, promised.openCalls)), ...different], above: 0 };
    } catch (error) {
      const away = isHoldfastError(error) && error.reason === "NOT_SENT";
      const why = away
        ? "its agent has no stream to this controller: start it, or mend the network between"
        : String(error instanceof Error ? error.message : error);
      const what = step === "NOT_TOLD" ? "tell what it holds" : `promise generation ${vetting.gen}`;
      const words = `node ${node.name} did not ${what}: ${why}`;
      return { findings: [finding(step, words, node.name)], above: 0 };
    }
  };

  return {
    lostCalls,
    async ask(nodes: readonly NodeRecord[], vetting: Vetting, signal: AbortSignal): Promise<Vetted> {
      const findings: Finding[] = [];
      let above = 0;
      await inTurns(nodes, abreast, async (node) => {
        const told = await hear(node, vetting, signal);
        findings.push(...told.findings);
        above = Math.max(above, told.above);
      });
      signal.throwIfAborted();
      return { findings: findings.sort((a, b) => (a.node < b.node ? -1 : 1)), above };
    },
  };
};
