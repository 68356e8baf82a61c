import type {
  RepairServiceDefinition,
  KnownController as WireController,
} from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { UpgradeCommands } from "../../commands/upgrade/upgrade-model.ts";
import type { KnownController } from "../../domain/controller-roster.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { dateOf } from "../convert-message.ts";
import { askedFrom, outcomeMessage } from "./convert-repair.ts";

export interface UpgradeDeps extends Pick<ApiDeps, "tracing"> {
  readonly upgrade: UpgradeCommands;
}

const controllerMessage = ({ id, version, formats, seenAt }: KnownController): WireController => ({
  id,
  version,
  oldestFormat: formats.oldest,
  newestFormat: formats.newest,
  seenAt: dateOf(seenAt),
});

export const createUpgrade = (
  deps: UpgradeDeps,
): Pick<Implementation<typeof RepairServiceDefinition>, "getUpgrade" | "finishUpgrade"> => ({
  async getUpgrade() {
    const { format, newest, controllers } = await deps.upgrade.status();
    return { format, newestFormat: newest, controllers: controllers.map(controllerMessage) };
  },

  async finishUpgrade(request, context) {
    const outcome = await deps.upgrade.finish(askedFrom(request), callerOf(deps, context, "FinishUpgrade"));
    return { outcome: outcomeMessage(outcome) };
  },
});
