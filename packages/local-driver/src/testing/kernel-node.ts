import { mkdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { createLogger } from "@holdfast/shared/log/logger";
import type { Capability, VolumeRecord } from "../domain/records.ts";
import { createBlocks } from "../host/blocks.ts";
import { parseMountinfo } from "../host/mountinfo.ts";
import { createTrees } from "../host/trees.ts";
import { createNodeOperations } from "../node/node-operations.ts";
import type { NodeOperations } from "../operations.ts";
import type { Host } from "../ports.ts";
import { openState } from "../state/open-state.ts";
import { createHostRig } from "./host-rig.ts";
import { mountCapability, nodeSettings } from "./node-fixture.ts";

export type KernelNode = Awaited<ReturnType<typeof createKernelNode>>;

/** The operations of a node on the real kernel and a real state directory, with the directories that the orchestrator makes. */
export async function createKernelNode() {
  const rig = await createHostRig({ name: "hf-node-" });
  const { run, mounts, signal, stateDir } = rig;
  const log = createLogger({ level: "error" });
  const state = await openState({ stateDir: { path: stateDir }, run, mounts, log, signal });
  let ids = 0;
  const host: Host = {
    ...rig,
    state,
    blocks: createBlocks(),
    trees: createTrees(),
    clock: { now: () => new Date(0).toISOString() },
    newId: () => {
      ids += 1;
      return `00000000-0000-4000-8000-${String(ids).padStart(12, "0")}`;
    },
  };
  const node: NodeOperations = createNodeOperations({ host, settings: nodeSettings });
  const staging = path.join(stateDir, "co/staging");
  const target = (n: number) => path.join(stateDir, `co/pod-${n}/target`);
  for (const directory of [staging, path.dirname(target(1)), path.dirname(target(2)), path.dirname(target(3))])
    await mkdir(directory, { recursive: true });

  return {
    rig,
    host,
    node,
    signal,
    staging,
    target,
    addVolume: async (over: Partial<VolumeRecord> = {}): Promise<VolumeRecord> => {
      const record: VolumeRecord = {
        kind: "volume",
        id: host.newId(),
        name: `data-${ids}`,
        type: "image",
        capacityBytes: 32n << 20n,
        createdAt: host.clock.now(),
        parameters: {},
        source: undefined,
        mutable: {},
        format: undefined,
        attachments: [],
        staging: undefined,
        publications: [],
        ...over,
      };
      await state.volumes.add(record, async (paths) => {
        if (record.type === "image") await host.images.create(paths.image, record.capacityBytes, signal);
        else await host.trees.makeRoot(paths.data);
      });
      return record;
    },
    stage: (volumeId: string, capability: Capability = mountCapability) =>
      node.stage({ volumeId, stagingPath: staging, capability }, signal),
    unstage: (volumeId: string) => node.unstage({ volumeId, stagingPath: staging }, signal),
    publish: (volumeId: string, n: number, capability: Capability = mountCapability, readonly = false) =>
      node.publish({ volumeId, stagingPath: staging, targetPath: target(n), capability, readonly }, signal),
    unpublish: (volumeId: string, n: number) => node.unpublish({ volumeId, targetPath: target(n) }, signal),
    /** Lines of the mount table for one path. */
    mountsAt: async (place: string) =>
      parseMountinfo(await readFile("/proc/self/mountinfo", "utf8")).filter(({ mountPoint }) => mountPoint === place),
    exists: (place: string) =>
      stat(place).then(
        () => true,
        () => false,
      ),
    close: async (): Promise<readonly string[]> => {
      await state.settled();
      const left = await rig.leftovers();
      await state.close();
      await rig.close();
      return left;
    },
  };
}
