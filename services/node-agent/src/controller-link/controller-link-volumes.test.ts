import { MakeVolumeRequest } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { AccessMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { ReclaimPolicy, VolumeBinding, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect, test, vi } from "vitest";
import type { WantedVolume } from "../domain/wanted-volume.ts";
import { anyCaller } from "../testing/model-agent.ts";
import { createControllerLinkVolumes, type VolumesClient } from "./controller-link-volumes.ts";

const host = (id: string, state: VolumeState = VolumeState.VOLUME_STATE_AVAILABLE) => ({
  ...{ id, plugin: "p", madeBy: "docker", state, capacityBytes: 1n, trouble: "", createdAt: undefined, holders: [] },
});
const client = {
  makeVolume: vi.fn<VolumesClient["makeVolume"]>(async () => ({ volume: host("data", 99 as VolumeState) })),
  removeVolume: vi.fn<VolumesClient["removeVolume"]>(async () => ({})),
  findVolumes: vi.fn<VolumesClient["findVolumes"]>(),
};
const controllers = () => [{ address: "c1", client }];
const volumes = createControllerLinkVolumes({ node: "n1", namespace: "docker", madeBy: "docker", controllers });
const wanted: WantedVolume = {
  ...{ id: "data", plugin: "p", requiredBytes: 5n, limitBytes: 0n, fsType: "ext4", mountFlags: ["noatime"] },
  ...{ parameters: { a: "1" }, labels: { team: "web" }, reclaim: "retain", atOnce: false },
};

test("a volume is asked for whole, for this node and namespace", async () => {
  expect(await volumes.make(wanted, 1_500, anyCaller)).toMatchObject({ id: "data", state: "CREATING" });
  expect(MakeVolumeRequest.fromPartial(client.makeVolume.mock.calls[0]?.[0] ?? {})).toMatchObject({
    ...{ node: "n1", namespace: "docker", madeBy: "docker" },
    volume: {
      ...{ namespace: "docker", id: "data", plugin: "p", parameters: { a: "1" }, labels: { team: "web" } },
      capacity: { requiredBytes: 5n, limitBytes: 0n },
      capabilities: [{ fsType: "ext4", mountFlags: ["noatime"], accessMode: AccessMode.ACCESS_MODE_UNSPECIFIED }],
      policy: { reclaim: ReclaimPolicy.RECLAIM_POLICY_RETAIN },
      binding: VolumeBinding.VOLUME_BINDING_FIRST_CLAIM,
      waitFor: { seconds: 1n, nanos: 500_000_000 },
    },
  });
  const named = { ...wanted, accessMode: "SINGLE_NODE_SINGLE_WRITER", reclaim: "delete", atOnce: true } as const;
  await volumes.make(named, 0, anyCaller);
  expect(client.makeVolume.mock.calls[1]?.[0]).toMatchObject({
    volume: {
      capabilities: [{ accessMode: AccessMode.ACCESS_MODE_SINGLE_NODE_SINGLE_WRITER }],
      policy: { reclaim: ReclaimPolicy.RECLAIM_POLICY_DELETE },
      binding: VolumeBinding.VOLUME_BINDING_IMMEDIATE,
    },
  });
});

test("a list goes on to its last page", async () => {
  client.findVolumes
    .mockResolvedValueOnce({ volumes: [host("a")], nextPageToken: "more" })
    .mockResolvedValueOnce({ volumes: [host("b", VolumeState.VOLUME_STATE_FAILED)], nextPageToken: "" });
  expect((await volumes.list(anyCaller)).map(({ id, state }) => [id, state])).toEqual([
    ["a", "AVAILABLE"],
    ["b", "FAILED"],
  ]);
  expect(client.findVolumes.mock.calls.map(([{ pageToken }]) => pageToken)).toEqual(["", "more"]);
});

test("one that is not there is none, and one that is gone is removed", async () => {
  client.findVolumes.mockResolvedValueOnce({ volumes: [], nextPageToken: "" });
  expect(await volumes.find("never", 40, anyCaller)).toBeUndefined();
  await volumes.remove("data", 30_000, anyCaller);
  expect(client.removeVolume.mock.calls[0]).toMatchObject([{ id: "data", madeBy: "docker" }, { deadlineMs: 40_000 }]);
});
