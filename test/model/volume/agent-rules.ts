/**
 * An agent and its host. An order is judged and journalled by the product's rules and done in the product's steps, all in one piece; what
 * the plugin on the host does is decided here.
 */
import type { Vetting } from "@holdfast/model/vetting";
import type { VolumeEvent } from "../../../services/node-agent/src/domain/events.ts";
import { judgePermit, judgeRelease, type RefusalReason } from "../../../services/node-agent/src/domain/judge-order.ts";
import { leavesWithStage, nextStep } from "../../../services/node-agent/src/domain/next-step.ts";
import { emptyRegistry } from "../../../services/node-agent/src/domain/plugin-registry.ts";
import type {
  AgentFacts,
  MountFailure,
  PermitFacts,
  VolumeRef,
  VolumeState,
} from "../../../services/node-agent/src/domain/types.ts";
import { applyEvent, isFault } from "../../../services/node-agent/src/domain/volume-machine.ts";
import type { AgentOrder, AgentReply, Host } from "./model-types.ts";

/** What NodeStageVolume does where the volume is attached. Elsewhere it cannot tell. */
export const stageFates = ["done", "refused"] as const;
export type StageFate = (typeof stageFates)[number];

export interface Handled {
  readonly host: Host;
  readonly answer: AgentReply;
  /** Why it was refused. */
  readonly reason?: RefusalReason;
}

/** Of whom the order is, and what the agent has promised; absent: all is of the first life in the first history. */
export interface Origin {
  readonly nodeEpoch: number;
  readonly promised: Vetting;
  readonly quarantined: boolean;
  /** As the order says. */
  readonly sender: Vetting;
  readonly forEpoch: number;
}

const firstVetting: Vetting = { gen: 1, uid: "" };
const first: Origin = { nodeEpoch: 1, promised: firstVetting, quarantined: false, sender: firstVetting, forEpoch: 1 };
const agentOf = ({ nodeEpoch, promised }: Origin): AgentFacts => ({
  nodeEpoch,
  clusterUid: "",
  promisedGen: promised.gen,
  promisedTo: promised.uid,
  bootId: "",
  plugins: emptyRegistry,
  workloads: {},
  docker: {},
});
const ref: VolumeRef = { namespace: "ns", volume: "data", volumeUid: "volume-1", externalId: "ext-1", plugin: "model" };
const refusal: MountFailure = { reason: "PLUGIN_REFUSED", method: "NodeStageVolume", code: "INVALID_ARGUMENT" };

const factsOf = ({ claim, epoch }: AgentOrder, nodeEpoch: number): PermitFacts => ({
  claimUid: claim,
  workload: claim,
  alias: "data",
  epoch,
  nodeEpoch,
  accessMode: "SINGLE_NODE_WRITER",
  attachmentMode: "FILE_SYSTEM",
  readOnly: false,
  fsType: "",
  digest: "",
  target: claim,
});

export const handleOrder = (
  before: Host,
  order: AgentOrder,
  attached: boolean,
  fate: StageFate,
  origin: Origin = first,
): Handled => {
  const { claim, epoch } = order;
  const facts = factsOf(order, origin.forEpoch);
  let { volume } = before;
  const mounted = new Set(before.mounted);
  const take = (event: VolumeEvent): void => {
    const after = applyEvent(volume, event);
    if (isFault(after)) throw new Error(`the journal of the agent is damaged: ${after.fault}`);
    volume = after;
  };
  const held = () => volume?.claims[claim];
  const ended = (answer: AgentReply, reason?: RefusalReason): Handled => {
    const { late } = before;
    const host: Host = { mounted: [...mounted].sort(), ...(late === undefined ? {} : { late }) };
    const told = reason === undefined ? { answer } : { answer, reason };
    return { host: volume === undefined ? host : { ...host, volume }, ...told };
  };

  const notPublished = (): void => {
    if (held()?.phase === "publishing") take({ type: "publish-refused", claimUid: claim });
  };

  /** undefined = as far as the goal of the claim asks for. */
  const drive = (): AgentReply | undefined => {
    for (let state: VolumeState | undefined = volume; state?.claims[claim] !== undefined; state = volume) {
      switch (nextStep(state, claim)) {
        case "stage":
          take({ type: "stage-intent" });
          if (held()?.phase === "permitted") take({ type: "publish-intent", claimUid: claim });
          if (!attached) {
            take({ type: "stage-unknown" });
            notPublished();
            return "uncertain";
          }
          if (fate === "refused") {
            take({ type: "stage-refused" });
            notPublished();
            take({ type: "release-intent", claimUid: claim, failure: refusal });
            break;
          }
          take({ type: "staged", shown: [], marks: [], before: [] });
          break;
        case "publish":
          if (held()?.phase !== "publishing") take({ type: "publish-intent", claimUid: claim });
          mounted.add(claim);
          take({ type: "published", claimUid: claim, mountId: 1, marks: [], before: [] });
          break;
        case "unpublish":
          take({ type: "unpublish-intent", claimUid: claim });
          if (leavesWithStage(state, claim)) take({ type: "unstage-intent" });
          mounted.delete(claim);
          take({ type: "unpublished", claimUid: claim });
          break;
        case "unstage":
          take({ type: "unstage-intent" });
          take({ type: "unstaged" });
          break;
        case "release":
          take({ type: "released", claimUid: claim, epoch, late: false });
          break;
        case "verify":
        case "none":
          return undefined;
      }
    }
    return undefined;
  };

  const { quarantined, sender } = origin;
  const standing = { agent: agentOf(origin), quarantined, volume, sender };
  if (order.kind === "permit") {
    const judged = judgePermit(standing, facts, order.oldest);
    switch (judged.kind) {
      case "refused":
        return ended("refused", judged.reason);
      case "not-mounted":
        return ended("not-mounted");
      case "new":
        take({
          type: "permit",
          ref,
          facts,
          floor: judged.floor,
          stageNeeded: true,
          stagePath: "",
          found: { stage: false, target: false },
        });
        break;
      case "repeat":
      case "changed":
        break;
    }
    return ended(drive() ?? (held() === undefined ? "not-mounted" : "published"));
  }
  const judged = judgeRelease(standing, { claimUid: claim, epoch, nodeEpoch: origin.forEpoch });
  switch (judged.kind) {
    case "refused":
      return ended("refused", judged.reason);
    case "released":
      return ended("released");
    case "unseen":
      take({ type: "dead", ref, claimUid: claim, epoch, late: false });
      return ended("released");
    case "held":
      if (held()?.goal === "mounted") take({ type: "release-intent", claimUid: claim });
      drive();
      return ended("released");
  }
};
