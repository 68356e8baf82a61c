/** GetCapacity. */
import type { BackendCapacity } from "../domain/backend-capacity.ts";
import type { ControllerPlugins } from "../ports.ts";
import { capabilitiesIn } from "./convert.ts";
import { outcomeFromCall } from "./outcome-from-call.ts";
import { done, type PluginCalls, unsayable } from "./plugin-calls.ts";

export const createCapacityCalls = (calls: PluginCalls): Pick<ControllerPlugins, "getCapacity"> => ({
  getCapacity: ({ plugin, capabilities, parameters, topology }, call) =>
    calls.run<BackendCapacity>(plugin, undefined, async (instance) => {
      const said = capabilitiesIn(capabilities, instance.facts.controller.SINGLE_NODE_MULTI_WRITER);
      if ("because" in said) return unsayable(plugin, said);
      const answer = await instance.call(
        "GetCapacity",
        {
          volumeCapabilities: [...said],
          parameters: { ...parameters },
          accessibleTopology: topology === undefined ? undefined : { segments: { ...topology } },
        },
        { signal: call.signal },
      );
      return outcomeFromCall(answer, call.attempt, ({ availableCapacity, maximumVolumeSize, minimumVolumeSize }) =>
        done({
          available: Number(availableCapacity),
          maximumVolume: Number(maximumVolumeSize ?? 0n),
          minimumVolume: Number(minimumVolumeSize ?? 0n),
        }),
      );
    }),
});
