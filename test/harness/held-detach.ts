/** A detach that is held on its way: at a relay, or in the socket of a plugin. */
import { IntentOperation } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect } from "vitest";
import type { Cluster } from "./cluster.ts";
import { namespace, releaseWorkload, stateName } from "./scenario.ts";
import { until } from "./until.ts";

export const heldDetach = (its: () => Cluster) => {
  const volumeOf = async (id: string) => (await its().volumes.getVolume({ namespace, id })).volume;
  const barsOf = async (id: string) => (await volumeOf(id))?.bars ?? [];
  /** In the order in which they reached the backend. */
  const callsOf = async (id: string, wanted: RegExp) => {
    const { externalId } = (await volumeOf(id)) ?? {};
    return (await its().backend.client.record()).filter(
      ({ method, volume }) => volume === externalId && wanted.test(method),
    );
  };
  /** At which instance, and how each of them ended for its caller. */
  const detachesOf = async (id: string) =>
    (await callsOf(id, /^ControllerUnpublish/)).map(({ instance, reply }) => ({ instance, reply }));

  return {
    volumeOf,
    barsOf,
    callsOf,
    detachesOf,
    /** The claim of its holder is let go; the detach lies at the instance by then, which is stopped. */
    async given(id: string): Promise<void> {
      await its().claims.releaseClaims({ namespace, workload: `w-${id}` });
      await until("the detach to be given away", async () => {
        const { operation } = (await volumeOf(id))?.intent ?? {};
        return operation === IntentOperation.INTENT_OPERATION_DETACH;
      });
    },
    /** Another instance makes it, and the pair is barred. */
    async overtaken(id: string, { holder, by }: { readonly holder: string; readonly by: string }): Promise<void> {
      expect((await releaseWorkload(its(), `w-${id}`)).map(stateName)).toEqual(["RELEASED"]);
      expect(await detachesOf(id)).toEqual([{ instance: by, reply: "sent" }]);
      expect(await barsOf(id)).toMatchObject([{ node: holder, operation: "detach" }]);
    },
  };
};
