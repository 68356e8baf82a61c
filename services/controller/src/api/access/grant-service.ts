/** Grants of schedulers: messages of holdfast.v1 ↔ the commands' words. */
import type { Grant, GrantServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/grant";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { AccessCommands } from "../../commands/access/access-commands.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import type { AccessGrantRecord } from "../../domain/access/access-grant.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks } from "../check-request.ts";
import { dateOf } from "../convert-message.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";

export interface GrantServiceDeps extends Pick<ApiDeps, "tracing"> {
  readonly access: AccessCommands;
}

const grantMessage = (record: AccessGrantRecord): Grant => ({
  scheduler: record.scheduler,
  namespaces: [...record.namespaces],
  plugins: [...record.plugins],
  secretRoots: [...record.secretRoots],
  ticketKeys: [...(record.ticketKeys ?? [])],
  createdAt: dateOf(record.createdAt),
  updatedAt: dateOf(record.updatedAt),
});

export const createGrantService = (deps: GrantServiceDeps): Implementation<typeof GrantServiceDefinition> => {
  const { access } = deps;
  return {
    async setGrant(request, context) {
      const { scheduler, namespaces, plugins, secretRoots, ticketKeys, reason, requestId } = request;
      const input = { scheduler, namespaces, plugins, secretRoots, ticketKeys, reason, requestId };
      return { grant: grantMessage(await access.setGrant(input, callerOf(deps, context, "SetGrant"))) };
    },
    getGrant: async ({ scheduler }) => ({ grant: grantMessage(await access.getGrant(scheduler)) }),
    async listGrants(request) {
      const checks = createChecks();
      const question = questionOf("ListGrants", {});
      const page = pageFrom(request, question, checks);
      refuse(checks.violations);
      const { items, next } = await access.listGrants(page);
      return { grants: items.map(grantMessage), nextPageToken: nextPageToken(next, question) };
    },
    async deleteGrant({ scheduler, reason, requestId }, context) {
      const input = { scheduler, reason, requestId };
      return { absent: !(await access.deleteGrant(input, callerOf(deps, context, "DeleteGrant"))) };
    },
  };
};
