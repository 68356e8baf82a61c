import { CallFlow, type PluginCalls } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { PluginLoad } from "../../domain/plugin/plugin-load.ts";

/** How the controller half of one plugin is called by this controller. */
export interface PluginCallsView extends PluginLoad {
  readonly waiting: number;
  /** Empty while nothing is held. */
  readonly held: string;
  /** Where the instance runs that is called now. */
  readonly at: { readonly node: string; readonly socket: string } | undefined;
}

const flows: Readonly<Record<PluginLoad["breaker"], CallFlow>> = {
  closed: CallFlow.CALL_FLOW_OPEN,
  open: CallFlow.CALL_FLOW_HELD,
  "half-open": CallFlow.CALL_FLOW_TRIED,
};

export const pluginCallsMessage = (view: PluginCallsView): PluginCalls => {
  const { breaker, held, running, waiting, limit, at, silent } = view;
  return {
    flow: flows[breaker],
    heldBecause: held,
    running,
    waiting,
    limit,
    node: at?.node ?? "",
    socket: at?.socket ?? "",
    silentInstances: silent.map(({ id, why }) => `${id} ${why}`),
  };
};
