/** Volumes for a program of this host, asked of any controller with a stream. */
import type {
  DeepPartial,
  FindVolumesRequest,
  FindVolumesResponse,
  HostVolume,
  MakeVolumeRequest,
  MakeVolumeResponse,
  RemoveVolumeRequest,
  RemoveVolumeResponse,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { AttachmentMode } from "@holdfast/shared/gen/holdfast/v1/common";
import { ReclaimPolicy, VolumeBinding, VolumeState } from "@holdfast/shared/gen/holdfast/v1/volume";
import { accessModeMessage } from "@holdfast/shared/grpc/convert-model";
import type { WantedVolume } from "../domain/wanted-volume.ts";
import type { FoundVolume, HostVolumes } from "../host-volumes/host-volumes.ts";
import { askControllers, type ControllersToAsk } from "./ask-controllers.ts";
import type { LinkCall } from "./controller-session.ts";

/** The calls of AgentLinkService that it needs. */
export interface VolumesClient {
  makeVolume(request: DeepPartial<MakeVolumeRequest>, options: LinkCall): Promise<MakeVolumeResponse>;
  removeVolume(request: DeepPartial<RemoveVolumeRequest>, options: LinkCall): Promise<RemoveVolumeResponse>;
  findVolumes(request: DeepPartial<FindVolumesRequest>, options: LinkCall): Promise<FindVolumesResponse>;
}

const callMs = 10_000;
const pageSize = 500;

const waitFor = (ms: number) => ({ seconds: BigInt(Math.floor(ms / 1000)), nanos: (ms % 1000) * 1_000_000 });

export function createControllerLinkVolumes(
  options: ControllersToAsk<VolumesClient> & {
    readonly namespace: string;
    /** The kind of program. */
    readonly madeBy: string;
  },
): HostVolumes {
  const { node, namespace, madeBy } = options;
  const ask = askControllers(options);
  const of = { node, namespace };

  return {
    async make(wanted, waitMs, signal) {
      const volume = { ...volumeMessage(wanted), namespace, waitFor: waitFor(waitMs) };
      const call = { signal, deadlineMs: callMs + waitMs };
      const made = (
        await ask((client) => client.makeVolume({ ...of, madeBy, volume, grow: wanted.grow === true }, call), signal)
      ).volume;
      if (made === undefined) throw new Error("MakeVolume answered without a volume");
      return foundFrom(made);
    },
    async remove(id, waitMs, signal) {
      const request = { ...of, madeBy, id, waitFor: waitFor(waitMs) };
      await ask((client) => client.removeVolume(request, { signal, deadlineMs: callMs + waitMs }), signal);
    },
    async find(id, deadlineMs, signal) {
      const { volumes } = await ask((client) => client.findVolumes({ ...of, id }, { signal, deadlineMs }), signal);
      return volumes[0] && foundFrom(volumes[0]);
    },
    async list(signal) {
      const all: FoundVolume[] = [];
      for (let pageToken = ""; ; ) {
        const request = { ...of, pageSize, pageToken };
        const page = await ask((client) => client.findVolumes(request, { signal, deadlineMs: callMs }), signal);
        all.push(...page.volumes.map(foundFrom));
        if (page.nextPageToken === "") return all;
        pageToken = page.nextPageToken;
      }
    },
  };
}

const volumeMessage = (volume: WantedVolume) => ({
  id: volume.id,
  plugin: volume.plugin,
  capacity: { requiredBytes: volume.requiredBytes, limitBytes: volume.limitBytes },
  capabilities: [
    {
      attachmentMode: AttachmentMode.ATTACHMENT_MODE_FILE_SYSTEM,
      accessMode: accessModeMessage(volume.accessMode ?? "UNKNOWN"),
      fsType: volume.fsType,
      mountFlags: [...volume.mountFlags],
    },
  ],
  parameters: volume.parameters,
  labels: volume.labels,
  policy: {
    reclaim: volume.reclaim === "retain" ? ReclaimPolicy.RECLAIM_POLICY_RETAIN : ReclaimPolicy.RECLAIM_POLICY_DELETE,
  },
  binding: volume.atOnce ? VolumeBinding.VOLUME_BINDING_IMMEDIATE : VolumeBinding.VOLUME_BINDING_FIRST_CLAIM,
});

const states: ReadonlyMap<number, FoundVolume["state"]> = new Map([
  [VolumeState.VOLUME_STATE_AVAILABLE, "AVAILABLE"],
  [VolumeState.VOLUME_STATE_DELETING, "DELETING"],
  [VolumeState.VOLUME_STATE_FAILED, "FAILED"],
]);

const foundFrom = ({ id, plugin, trouble, holders, state, createdAt, capacityBytes }: HostVolume): FoundVolume => ({
  ...{ id, plugin, trouble, holders },
  bytes: capacityBytes,
  // A state of a newer controller is one that has not settled.
  state: states.get(state) ?? "CREATING",
  createdAt: createdAt?.getTime() ?? 0,
});
