/** A person's word for the bars of gates that stay away. */
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { bookName, type ClearedBar } from "./bar-times.ts";

const operator = { log: createMemoryLogger(), identity: { role: "operator", name: "test" } } as const;
const patience = { deadlineMs: 5_000 };

/** Clears the bars for calls at these instances, as the plugin's book names them, by way of the controller there. */
const clearThere = async (address: string, instances: readonly string[]): Promise<readonly ClearedBar[]> => {
  const channel = createGrpcChannel(address);
  const repair = createGrpcClient(RepairServiceDefinition, channel, operator);
  const cleared: ClearedBar[] = [];
  try {
    const { volumes } = await createGrpcClient(VolumeServiceDefinition, channel, operator).listVolumes({}, patience);
    for (const { namespace, id, bars } of volumes)
      for (const bar of bars.filter(({ instance }) => instances.includes(bookName(instance)))) {
        const asked = { namespace, volume: id, bar: bar.id, evidence: "its process is gone", reason: "test" };
        const { outcome } = await repair.clearBar({ ...asked, dryRun: true }, patience);
        await repair.clearBar({ ...asked, confirm: outcome?.confirmWith ?? "" }, patience);
        cleared.push({ volume: `${namespace}/${id}`, instance: bar.instance, at: Date.now() });
      }
  } catch {
    // The controller is away, or the record has moved on: whatever is left waits for its gate.
  } finally {
    channel.close();
  }
  return cleared;
};

export const clearBarsAt = async (
  addresses: readonly string[],
  instances: readonly string[],
): Promise<readonly ClearedBar[]> => {
  const cleared: ClearedBar[] = [];
  for (const address of addresses) cleared.push(...(await clearThere(address, instances)));
  return cleared;
};
