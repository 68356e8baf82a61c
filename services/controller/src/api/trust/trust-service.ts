/** Certificates: messages of holdfast.v1 ↔ the commands' words. */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { type Revoked, TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { CallMiddleware, GrpcServer } from "@holdfast/shared/grpc/server";
import type { TrustCommands } from "../../commands/trust/trust-model.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import type { Denial } from "../../domain/trust/denial.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import type { ServedService } from "../audit/audit-middleware.ts";
import { createChecks, durationMs } from "../check-request.ts";
import { dateOf } from "../convert-message.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";

export interface TrustServiceDeps extends Pick<ApiDeps, "tracing"> {
  readonly trust: TrustCommands;
  /** Where agents reach this controller. */
  readonly agentAddress: () => string;
}

const revokedMessage = ({ subject, at, endsAt, who, reason }: Denial): Revoked => ({
  subject,
  revokedAt: dateOf(at),
  endsAt: dateOf(endsAt),
  who,
  reason,
});

type Served = Implementation<typeof TrustServiceDefinition>;

export const createTrustService = (deps: TrustServiceDeps): Served => {
  const { trust, agentAddress } = deps;
  return {
    async createNodeToken({ node, ttl }, context) {
      const checks = createChecks();
      const ttlMs = durationMs("ttl", ttl, checks);
      refuse(checks.violations);
      const made = await trust.createNodeToken({ node, ttlMs }, callerOf(deps, context, "CreateNodeToken"));
      return { token: made.token, expiresAt: dateOf(made.endsAt), pin: made.pin, agentAddress: agentAddress() };
    },
    enrol: ({ token, node, request }, context) =>
      trust.enrol({ token, node, request }, callerOf(deps, context, "Enrol")),
    renew: ({ request }, { identity }) => trust.renew(request, identity),
    async revoke({ subject, reason, endsAt, requestId }, context) {
      const input = { subject, reason, endsAt: endsAt?.getTime(), requestId };
      return { revoked: revokedMessage(await trust.revoke(input, callerOf(deps, context, "Revoke"))) };
    },
    async listRevoked(request) {
      const checks = createChecks();
      const question = questionOf("ListRevoked", {});
      const page = pageFrom(request, question, checks);
      refuse(checks.violations);
      const { items, next } = await trust.listRevoked(page);
      return { revoked: items.map(revokedMessage), nextPageToken: nextPageToken(next, question) };
    },
  };
};

/** Where agents reach the controller, enrolment and renewal alone are served. Answers the name of the service. */
export const addForAgents = (
  server: Pick<GrpcServer, "add">,
  service: Served,
  around: (definition: ServedService) => readonly CallMiddleware[],
): string => {
  const elsewhere = async (): Promise<never> => {
    throw new HoldfastError({
      kind: "permission",
      reason: "PERMISSION_DENIED",
      message: "this address is for agents: ask at HOLDFAST_LISTEN of the controller",
    });
  };
  const reachable = { ...service, createNodeToken: elsewhere, revoke: elsewhere, listRevoked: elsewhere };
  server.add(TrustServiceDefinition, reachable, { middlewares: around(TrustServiceDefinition) });
  return TrustServiceDefinition.fullName;
};
