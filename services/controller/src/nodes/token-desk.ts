/**
 * Tokens for the claims of a node, asked by its agent just before each NodePublishVolume, and the permit for another one.
 *
 * Desk-1 Which node asks is known from its stream, and never from the message (that one names no other node: api/access/rules.ts). Desk-2 The claim is judged by the record as the store has it
 * now. Desk-3 No token is kept or told to anybody else.
 */
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type {
  AgentLinkServiceDefinition,
  IssueTokensRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import type { CallContext, Implementation } from "@holdfast/shared/grpc/call-context";
import { unvettedWords } from "../domain/claim/grant.ts";
import { tokenRight } from "../domain/claim/token-right.ts";
import { checkId, checkRequired } from "../domain/limits.ts";
import type { TokenRequest } from "../domain/plugin/publishing.ts";
import type { NodeView, StoreGate } from "../ports.ts";
import { takesWork } from "../records/grant-facts.ts";
import type { VolumeRecords } from "../records/volume/volume-records.ts";
import { epochFrom } from "./convert.ts";
import type { createPermitWords, PublishingFacts } from "./permit-words.ts";

type IssueTokens = Implementation<typeof AgentLinkServiceDefinition>["issueTokens"];

export interface TokenDeskOptions {
  readonly records: Pick<VolumeRecords, "current">;
  readonly nodes: { get(name: string): NodeView | undefined };
  readonly gate: Pick<StoreGate, "state">;
  readonly publishing: Pick<PublishingFacts, "of">;
  readonly permitWords: ReturnType<typeof createPermitWords>;
  readonly signer: {
    /** Rejects with TOKENS_UNSIGNED. */
    sign(subject: Told, requests: readonly TokenRequest[]): Promise<readonly SignedToken[]>;
  };
}

/** What a token says. */
interface Told {
  readonly namespace: string;
  readonly workload: string;
  readonly node: string;
  readonly volume: string;
}

interface SignedToken {
  readonly audience: string;
  readonly token: string;
  /** Wall clock, milliseconds. */
  readonly expiresAt: number;
}

export const createTokenDesk =
  ({ records, nodes, gate, publishing, permitWords, signer }: TokenDeskOptions): IssueTokens =>
  async (request, context) => {
    const name = callerNode(context); // Desk-1
    checkAsk(request);
    const { namespace, volume: id, claimUid, instance, again } = request;
    const { vetting } = gate.state();
    const volume = (await records.current({ namespace, id }))?.volume; // Desk-2
    const { open, reason } = gate.state(volume?.plugin);
    if (!open) throw unvetted(reason);
    const node = nodes.get(name);
    if (!takesWork(node)) throw notHeld(request, name, "the node takes no work");
    const permit = tokenRight(volume, node.record, { claimUid, instance, epoch: epochFrom(request.epoch) });
    if (typeof permit === "string") throw notHeld(request, name, permit);
    const { tokens: wanted, againMs, inVolumeContext } = publishing.of(permit.volume);
    if (again && againMs === 0) return {};
    const words = again ? await permitWords(permit, 1) : undefined;
    const { workload } = permit.claim;
    const signed = await signer.sign({ namespace, workload, node: name, volume: id }, wanted);
    return {
      tokens: signed.map(({ expiresAt, ...one }) => ({ ...one, expiresAt: new Date(expiresAt) })),
      inVolumeContext,
      ...(words && { publish: { permit: words.message, vetting: { gen: BigInt(vetting.gen), uid: vetting.uid } } }),
    };
  };

const callerNode = ({ identity: { role, name } }: Pick<CallContext, "identity">): string => {
  if (role === "node" && name !== "") return name;
  throw new HoldfastError({
    kind: "permission",
    reason: "PERMISSION_DENIED",
    message: `tokens are for the agents of nodes, over their streams, and not for a ${role}`,
  });
};

const checkAsk = ({ namespace, volume, claimUid, instance }: IssueTokensRequest): void => {
  const violations = [
    ...checkId("namespace", namespace),
    ...checkId("volume", volume),
    ...checkRequired("claim_uid", claimUid),
    ...checkRequired("instance", instance),
  ];
  if (violations.length > 0) throw invalidArgument(violations);
};

const unvetted = (reason: string): HoldfastError =>
  new HoldfastError({ kind: "unavailable", reason: "STORE_UNVETTED", message: unvettedWords(reason) });

const notHeld = ({ namespace, volume, claimUid }: IssueTokensRequest, node: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CLAIM_NOT_HELD",
    message: `node ${node} gets no tokens for claim ${claimUid} of volume ${namespace}/${volume}: ${why}`,
    metadata: { namespace, volume, node },
  });
