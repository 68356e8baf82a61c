import type * as csi from "@holdfast/shared/gen/csi/v1/csi";
import { withoutTokens } from "./call.ts";
import { hashOf } from "./ids.ts";

/**
 * What makes two calls "the same call": every argument but the secrets, which may be renewed between tries. Kept here,
 * for the rules that compare and the effects that store must mean the same thing.
 */
export const createVolumeArguments = ({ name: _, secrets: __, ...rest }: csi.CreateVolumeRequest): string =>
  hashOf(rest);

export const createSnapshotArguments = (request: csi.CreateSnapshotRequest): string =>
  hashOf([request.sourceVolumeId, request.parameters, request.accessibilityRequirements]);

export const createGroupArguments = (request: csi.CreateVolumeGroupSnapshotRequest): string =>
  hashOf([[...request.sourceVolumeIds].sort(), request.parameters]);

export const stageArguments = (request: csi.NodeStageVolumeRequest): string =>
  hashOf([request.publishContext, request.volumeCapability, request.volumeContext]);

/** Tokens are renewed too, also those of an old plugin. */
export const nodePublishArguments = (request: csi.NodePublishVolumeRequest): string =>
  hashOf([
    request.publishContext,
    request.stagingTargetPath,
    request.volumeCapability,
    request.readonly,
    withoutTokens(request.volumeContext),
  ]);
