/** GetCapacity. */

import { wholeNumber } from "@holdfast/model/whole-number";
import type { Outcome } from "../domain/outcome.ts";
import type { BackendCapacity, CapacityQuery } from "../domain/plugin/backend-capacity.ts";
import type { CallTarget } from "../domain/plugin/instance-reach.ts";
import type { CallContext, ControllerPlugins } from "../ports.ts";
import { capabilitiesIn } from "./convert.ts";
import { outcomeFromCall } from "./outcome-from-call.ts";
import { done, type PluginCalls, unsayable } from "./plugin-calls.ts";

const least = (a: number, b: number): number => (a === 0 || b === 0 ? Math.max(a, b) : Math.min(a, b));

/** The room of instances with places of their own; 0 = that instance tells no bound. */
const together = (a: BackendCapacity, b: BackendCapacity): BackendCapacity => ({
  available: a.available + b.available,
  maximumVolume: Math.min(a.maximumVolume, b.maximumVolume) === 0 ? 0 : Math.max(a.maximumVolume, b.maximumVolume),
  minimumVolume: least(a.minimumVolume, b.minimumVolume),
});

export const createCapacityCalls = (calls: PluginCalls): Pick<ControllerPlugins, "getCapacity"> => {
  const ask = (
    target: CallTarget,
    { plugin, capabilities, parameters, topology }: CapacityQuery,
    call: CallContext,
  ): Promise<Outcome<BackendCapacity>> =>
    calls.run<BackendCapacity>(target, undefined, async (instance) => {
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
          available: wholeNumber(availableCapacity),
          maximumVolume: wholeNumber(maximumVolumeSize ?? 0n),
          minimumVolume: wholeNumber(minimumVolumeSize ?? 0n),
        }),
      );
    });

  return {
    async getCapacity(query, call) {
      const { plugin, topology } = query;
      if (topology !== undefined) return await ask({ plugin, accessible: [topology] }, query, call);
      const [first, ...others] = calls.every(plugin).here;
      if (first?.own === undefined || others.length === 0) return await ask({ plugin }, query, call);
      let sum = await ask({ plugin, only: first.id }, query, call);
      for (const { id } of others) {
        if (sum.kind !== "done") return sum;
        const next = await ask({ plugin, only: id }, query, call);
        sum = next.kind === "done" ? done(together(sum.value, next.value)) : next;
      }
      return sum;
    },
  };
};
