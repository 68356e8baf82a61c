import type { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { SecretCommands } from "../../commands/secret/secret-model.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { checkSecretName } from "../../domain/limits.ts";
import { listWithin } from "../access/within-scope.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks, optionalId } from "../check-request.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";
import { secretMessage } from "./convert-secret.ts";

export interface SecretServiceDeps extends Pick<ApiDeps, "tracing" | "scopeOf"> {
  readonly secrets: SecretCommands;
}

/** Values go in and never come out: none of these answers has a field that could hold one. */
export const createSecretService = (deps: SecretServiceDeps): Implementation<typeof SecretServiceDefinition> => {
  const { secrets } = deps;
  return {
    async putSecret({ namespace, name, values, requestId }, context) {
      const input = { namespace, name, values, requestId };
      const { secret, version } = await secrets.putSecret(input, callerOf(deps, context, "PutSecret"));
      return { secret: secretMessage(secret), version: BigInt(version) };
    },

    async deleteSecret({ namespace, name, version }, context) {
      const input = { namespace, name, version: Number(version) };
      return { absent: !(await secrets.deleteSecret(input, callerOf(deps, context, "DeleteSecret"))) };
    },

    async listSecrets(request, { identity, signal }) {
      const checks = createChecks();
      const filter = {
        namespace: optionalId("namespace", request.namespace, checks),
        namePrefix: request.namePrefix,
      };
      // A prefix of a name may end where no name may.
      if (filter.namePrefix !== "" && checkSecretName("name_prefix", `${filter.namePrefix.slice(0, 72)}0`).length > 0)
        checks.complain("name_prefix", "is the beginning of no name of a secret");
      const scope = deps.scopeOf(identity);
      const question = questionOf("ListSecrets", filter, scope);
      const page = { ...pageFrom(request, question, checks), signal };
      refuse(checks.violations);
      const { items, next } = await listWithin(scope, filter, page, secrets.listSecrets);
      return { secrets: items.map(secretMessage), nextPageToken: nextPageToken(next, question) };
    },
  };
};
