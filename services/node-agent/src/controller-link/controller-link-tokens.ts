/** Tokens for the claims of this host, and the permit for another publication, asked of any controller with a stream. */
import { identityTokensKey } from "@holdfast/csi/field-rules";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type {
  DeepPartial,
  IdentityTokenValue,
  IssueTokensRequest,
  IssueTokensResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { epochMessage } from "@holdfast/shared/grpc/convert-model";
import { permitFrom } from "../api/convert.ts";
import type { VolumeRef } from "../domain/types.ts";
import type { HeldAs, PublishTokens, TokenSource } from "../ports.ts";
import { askControllers, type ControllersToAsk } from "./ask-controllers.ts";
import type { LinkCall } from "./controller-session.ts";

/** The call of AgentLinkService that publications need. */
export interface TokensClient {
  issueTokens(request: DeepPartial<IssueTokensRequest>, options: LinkCall): Promise<IssueTokensResponse>;
}

export interface ControllerLinkTokensOptions extends ControllersToAsk<TokensClient> {
  /** The process, as it registers. */
  readonly instance: string;
}

const callMs = 10_000;

export function createControllerLinkTokens(options: ControllerLinkTokensOptions): TokenSource {
  const { node, instance } = options;
  const ask = askControllers(options);

  const issued = (ref: VolumeRef, { claimUid, epoch }: HeldAs, again: boolean, signal: AbortSignal) => {
    const { namespace, volume } = ref;
    const request = { node, namespace, volume, claimUid, epoch: epochMessage(epoch), instance, again };
    return ask((client) => client.issueTokens(request, { signal, deadlineMs: callMs }), signal);
  };

  return {
    tokens: async (ref, held, signal) => publishTokens(await issued(ref, held, false, signal)),
    async again(ref, held, signal) {
      const answer = await issued(ref, held, true, signal);
      if (answer.publish === undefined) return undefined;
      const { order } = permitFrom(answer.publish);
      const { claimUid } = order.claim;
      if (order.ref.volumeUid !== ref.volumeUid || claimUid !== held.claimUid) throw otherClaim(ref, held, claimUid);
      return { order, tokens: publishTokens(answer) };
    },
  };
}

/** KEP-5538: in the secrets; where the plugin is old, in volume_context too. */
export function publishTokens({ tokens, inVolumeContext }: IssueTokensResponse): PublishTokens {
  if (tokens.length === 0) return { secrets: {}, volumeContext: {}, sensitive: {} };
  const value = JSON.stringify(Object.fromEntries(tokens.map((one) => [one.audience, tokenWords(one)])));
  const told = { [identityTokensKey]: value };
  return {
    secrets: told,
    volumeContext: inVolumeContext ? told : {},
    // An error of a driver may hold one token, or its signature, rather than the whole value.
    sensitive: Object.fromEntries(
      tokens.flatMap(({ token }, i) => [
        [`token ${i}`, token],
        [`signature ${i}`, token.slice(token.lastIndexOf(".") + 1)],
      ]),
    ),
  };
}

const tokenWords = ({ token, expiresAt }: IdentityTokenValue) => ({
  token,
  expirationTimestamp: (expiresAt ?? new Date(0)).toISOString().replace(/\.\d{3}Z$/, "Z"),
});

const otherClaim = ({ namespace, volume }: VolumeRef, { claimUid }: HeldAs, other: string): HoldfastError =>
  new HoldfastError({
    kind: "internal",
    reason: "INTERNAL",
    message: `a controller was asked for claim ${claimUid} of volume ${namespace}/${volume}, and answered for claim ${other}`,
  });
