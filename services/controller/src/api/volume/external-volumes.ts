import type { VolumeServiceDefinition, ExternalVolume as WireExternal } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { ExternalVolume, ListExternalVolumes } from "../../commands/volume/list-external-volumes.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { createChecks } from "../check-request.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";

export interface ExternalVolumesDeps {
  readonly listExternalVolumes: ListExternalVolumes;
}

const externalMessage = ({ listed, known }: ExternalVolume): WireExternal => ({
  externalId: listed.externalId,
  capacityBytes: BigInt(listed.capacity),
  context: { ...listed.context },
  accessibleTopology: listed.accessible.map((segments) => ({ segments: { ...segments } })),
  sourceSnapshotId: listed.sourceSnapshot,
  sourceVolumeId: listed.sourceVolume,
  publishedDriverNodeIds: [...(listed.publishedNodes ?? [])],
  condition: listed.condition === undefined ? undefined : { ...listed.condition },
  knownNamespace: known?.namespace ?? "",
  knownId: known?.id ?? "",
});

export const createExternalVolumes = ({
  listExternalVolumes,
}: ExternalVolumesDeps): Pick<Implementation<typeof VolumeServiceDefinition>, "listExternalVolumes"> => ({
  async listExternalVolumes(request, { signal }) {
    const checks = createChecks();
    const { plugin } = request;
    const question = questionOf("ListExternalVolumes", { plugin });
    const page = pageFrom(request, question, checks);
    refuse(checks.violations);
    const { items, next } = await listExternalVolumes(plugin, page, signal);
    return { volumes: items.map(externalMessage), nextPageToken: nextPageToken(next, question) };
  },
});
