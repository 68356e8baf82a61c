import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import type { Cluster } from "./cluster.ts";
import { makeVolume, removeVolume } from "./scenario.ts";
import type { OtherController } from "./second-controller.ts";
import { until } from "./until.ts";

export type Which = "first" | OtherController;

/** The cluster as the callers of that controller see it. */
export const seenFrom = (cluster: Cluster, which: Which): Cluster =>
  which === "first" ? cluster : Object.assign(Object.create(cluster) as Cluster, cluster[which].clients);

/** A limit that cannot be divided: one controller makes all calls. */
const keepUndivided = async ({ address }: Cluster, ...more: readonly string[]): Promise<void> => {
  const channel = createGrpcChannel(address);
  try {
    const identity = { role: "operator", name: "test" } as const;
    const plugins = createGrpcClient(PluginServiceDefinition, channel, { log: createMemoryLogger(), identity });
    await plugins.setPluginProfile({
      name: "sim.holdfast.dev",
      profile: { exclusiveMethods: ["GetCapacity", ...more] },
    });
  } finally {
    channel.close();
  }
};

/**
 * Two controllers at work, until one of them makes the calls of the plugin also for the other. Tells which one does. What was made for
 * it is removed again.
 */
export const settleDriver = async (cluster: Cluster): Promise<Record<"driver" | "other", Which>> => {
  await keepUndivided(cluster);
  const made: string[] = [];
  /** By whom a volume is made that is asked for there; by both, as long as neither knows of the other. */
  const makersAt = async (at: Which): Promise<readonly string[]> => {
    const { seq: last = 0 } = (await cluster.backend.client.record()).at(-1) ?? {};
    const id = `settle-${made.length}`;
    made.push(id);
    await makeVolume(seenFrom(cluster, at), id);
    const calls = await cluster.backend.client.record();
    return calls.flatMap(({ seq, method, instance }) => (method === "CreateVolume" && seq > last ? [instance] : []));
  };
  const rounds: string[] = [];
  const what = (): string => `one controller to make the calls of both; they were made by ${rounds.join("; ")}`;
  let before: string | undefined;
  const driver = await until(what, async () => {
    const makers = [...(await makersAt("first")), ...(await makersAt("second"))];
    rounds.push(makers.join(" and "));
    const one = makers.length === 2 && makers[0] === makers[1] ? makers[0] : undefined;
    if (one !== undefined && one === before) return one;
    before = one;
    // Both go on dividing the calls now and then, as if one had not heard of the profile: it is told once more.
    if (made.length % 40 === 0) await keepUndivided(cluster, ...(made.length % 80 === 0 ? [] : ["ListSnapshots"]));
    await new Promise((resolve) => setTimeout(resolve, 300));
    return undefined;
  });
  await Promise.all(made.map((id) => removeVolume(cluster, id)));
  return driver === "first" ? { driver: "first", other: "second" } : { driver: "second", other: "first" };
};
