import { AccessMode, AttachmentMode, type VolumeCapability } from "@holdfast/shared/gen/holdfast/v1/common";
import type { CapabilityMask } from "@holdfast/sim-plugin/backend/capabilities";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import {
  expectClean,
  growVolume,
  isGrown,
  makeVolume,
  namespace,
  plugin,
  releaseWorkload,
  stateName,
  volumeStateName,
} from "../harness/scenario.ts";
import { full, sample } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

const waiting = { seconds: 45n, nanos: 0 };
const readers: readonly AccessMode[] = [
  AccessMode.ACCESS_MODE_SINGLE_NODE_READER_ONLY,
  AccessMode.ACCESS_MODE_MULTI_NODE_READER_ONLY,
];
const olderModes: readonly AccessMode[] = [
  ...readers,
  AccessMode.ACCESS_MODE_SINGLE_NODE_WRITER,
  AccessMode.ACCESS_MODE_MULTI_NODE_SINGLE_WRITER,
  AccessMode.ACCESS_MODE_MULTI_NODE_MULTI_WRITER,
  // Without SINGLE_NODE_MULTI_WRITER it is said as SINGLE_NODE_WRITER, by the controller and by the agent.
  AccessMode.ACCESS_MODE_SINGLE_NODE_SINGLE_WRITER,
];

const capabilities = (modes: readonly AccessMode[]): fc.Arbitrary<VolumeCapability> =>
  fc.oneof(
    fc.record({
      attachmentMode: fc.constant(AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM),
      accessMode: fc.constantFrom(...modes),
      fsType: fc.constantFrom("", "ext4", "xfs"),
      mountFlags: fc.uniqueArray(fc.constantFrom<string[]>("noatime", "nodev", "nosuid")),
      volumeMountGroup: fc.constantFrom("", "1000", "staff"),
    }),
    fc.record({
      attachmentMode: fc.constant(AttachmentMode.ATTACHMENT_MODE_BLOCK_DEVICE),
      accessMode: fc.constantFrom(...modes),
      fsType: fc.constant(""),
      mountFlags: fc.constant<string[]>([]),
      volumeMountGroup: fc.constant(""),
    }),
  );

const fine = ["controller.SINGLE_NODE_MULTI_WRITER", "node.SINGLE_NODE_MULTI_WRITER"] as const;
const plugins: readonly { readonly kind: string; readonly mask: CapabilityMask; readonly modes: typeof olderModes }[] =
  [
    { kind: "without the newer modes", mask: { without: fine }, modes: olderModes },
    ...(full
      ? [{ kind: "with them", mask: {}, modes: [...olderModes, AccessMode.ACCESS_MODE_SINGLE_NODE_MULTI_WRITER] }]
      : []),
  ];

describe.skipIf(!root).each(plugins)("D9 a plugin $kind that compares capabilities", ({ mask, modes }) => {
  let cluster: Cluster;
  let lives = 0;
  beforeAll(async () => {
    const backend = { comparesCapabilities: true, capabilities: mask };
    cluster = await startCluster({ nodes: ["node-a"], realMounts: true, backend });
  });
  afterAll(() => cluster?.stop());

  /** Created, registered anew, claimed, grown in use, released. */
  const live = async (capability: VolumeCapability): Promise<void> => {
    lives += 1;
    const id = `v-${lives}`;
    const made = await makeVolume(cluster, `${id}-made`, capability);
    await cluster.volumes.deregisterVolume({ namespace, id: `${id}-made` });
    const { externalId, context } = made;
    const named = { namespace, id, plugin, externalId, context, capabilities: [capability] };
    const { volume } = await cluster.volumes.registerVolume({ ...named, waitFor: waiting });
    expect(volume === undefined ? "none" : volumeStateName(volume)).toBe("AVAILABLE");
    const readOnly = readers.includes(capability.accessMode);
    const asked = { namespace, workload: id, node: "node-a", claims: [{ volume: id, readOnly }] };
    const { claims } = await cluster.claims.createClaims({ ...asked, waitFor: waiting });
    expect(claims.map(stateName)).toEqual(["ACTIVE"]);
    expect(isGrown(await growVolume(cluster, id))).toBe(true);
    await releaseWorkload(cluster, id);
    await cluster.volumes.deregisterVolume({ namespace, id });
  };

  it("is told the same one in each call of a volume's life", async () => {
    await fc.assert(
      fc.asyncProperty(capabilities(modes), async (capability) => {
        await cluster.backend.client.clear();
        await live(capability);
        await expectClean(cluster, { volumesLeft: lives });
        const told = (await cluster.backend.client.record()).flatMap(({ method, request }) => {
          const { volumeCapability: one, volumeCapabilities: several = [] } = request as Record<string, never>;
          return [...(one === undefined ? [] : [one]), ...several].map((said) => ({ method, said }));
        });
        expect(new Set(told.map(({ method }) => method))).toEqual(
          new Set([
            "CreateVolume",
            "ValidateVolumeCapabilities",
            "ControllerPublishVolume",
            "NodeStageVolume",
            "NodePublishVolume",
            "ControllerExpandVolume",
            "NodeExpandVolume",
          ]),
        );
        expect([...new Set(told.map(({ said }) => JSON.stringify(said)))]).toHaveLength(1);
        const group = `"volumeMountGroup":"${capability.volumeMountGroup}"`;
        if (capability.volumeMountGroup !== "") expect(JSON.stringify(told[0]?.said)).toContain(group);
      }),
      { numRuns: sample(60, 6), endOnFailure: true },
    );
  });
});
