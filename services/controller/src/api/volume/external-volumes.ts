import type { VolumeServiceDefinition, ExternalVolume as WireExternal } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { ExternalVolume, ListExternalVolumes } from "../../commands/volume/list-external-volumes.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { type CallerScope, isBounded, seesNamespace } from "../../domain/access/caller-scope.ts";
import type { ApiDeps } from "../api-deps.ts";
import { createChecks } from "../check-request.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";

export interface ExternalVolumesDeps {
  readonly listExternalVolumes: ListExternalVolumes;
}

/** Where else it came from may be storage of anybody: told to those who see all. */
const externalMessage = ({ listed, known }: ExternalVolume, scope: CallerScope): WireExternal => ({
  externalId: listed.externalId,
  capacityBytes: BigInt(listed.capacity),
  context: { ...listed.context },
  accessibleTopology: listed.accessible.map((segments) => ({ segments: { ...segments } })),
  sourceSnapshotId: isBounded(scope) ? "" : listed.sourceSnapshot,
  sourceVolumeId: isBounded(scope) ? "" : listed.sourceVolume,
  publishedDriverNodeIds: [...(listed.publishedNodes ?? [])],
  condition: listed.condition === undefined ? undefined : { ...listed.condition },
  knownNamespace: known?.namespace ?? "",
  knownId: known?.id ?? "",
});

export const createExternalVolumes = ({
  listExternalVolumes,
  scopeOf,
}: ExternalVolumesDeps & Pick<ApiDeps, "scopeOf">): Pick<
  Implementation<typeof VolumeServiceDefinition>,
  "listExternalVolumes"
> => ({
  async listExternalVolumes(request, { identity, signal }) {
    const checks = createChecks();
    const { plugin } = request;
    const scope = scopeOf(identity);
    const question = questionOf("ListExternalVolumes", { plugin }, scope);
    const page = pageFrom(request, question, checks);
    refuse(checks.violations);
    const { items, next } = await listExternalVolumes(plugin, page, signal);
    // The storage of other namespaces is left out, and not only whose it is: nothing here is a way to it.
    const seen = items.filter(({ known }) => known === undefined || seesNamespace(scope, known.namespace));
    return { volumes: seen.map((one) => externalMessage(one, scope)), nextPageToken: nextPageToken(next, question) };
  },
});
