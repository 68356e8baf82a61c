import type { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { CheckPlacement } from "../../commands/placement/placement-model.ts";
import { validateCheckPlacement } from "../../commands/placement/validate-placement.ts";
import type { SecretGrants } from "../../domain/secret/secret-scope.ts";
import { createChecks, refuseAll } from "../check-request.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";
import { placementInput, placementMessage } from "./convert-placement.ts";

export interface PlacementServiceDeps {
  readonly checkPlacement: CheckPlacement;
  readonly granted: SecretGrants;
}

export const createPlacementService = ({
  checkPlacement,
  granted,
}: PlacementServiceDeps): Implementation<typeof PlacementServiceDefinition> => ({
  async checkPlacement(request) {
    const checks = createChecks();
    const input = placementInput(request, checks);
    const question = questionOf("CheckPlacement", input);
    const page = pageFrom(request, question, checks);
    refuseAll(checks, () => validateCheckPlacement(input, granted));
    const { items, next } = await checkPlacement(input, page);
    return { nodes: items.map(placementMessage), nextPageToken: nextPageToken(next, question) };
  },
});
