/** Messages of PluginHostService ↔ the words of the plugin host. */

import path from "node:path";
import { isPluginName } from "@holdfast/csi/plugin-name";
import { msOfDuration } from "@holdfast/model/wire-duration";
import type { Duration } from "@holdfast/shared/gen/google/protobuf/duration";
import {
  type Instance,
  type PreparePluginRequest,
  type PreparePluginResponse,
  type StopPluginRequest,
  type SupervisePluginRequest,
  type SupervisePluginResponse,
  SupervisionEvent,
} from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { MountPropagation } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import type { DeepPartial } from "@holdfast/shared/gen/holdfast/v1/common";
import { type PluginFingerprint, PluginRole } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { maxSocketPathBytes } from "@holdfast/shared/grpc/listen-address";
import { isPlainPath } from "../domain/path-map.ts";
import { isUnder, maxRootBytes } from "../domain/paths.ts";
import { type HostedInstance, type InstanceKey, type InstanceRole, serves } from "../domain/plugin-registry.ts";
import type { InstanceView } from "../plugins/host/instance-board.ts";
import type { StopOrder } from "../plugins/host/stopping.ts";
import type { SupervisionStep, SupervisionWord } from "../plugins/host/supervision.ts";
import { type Checks, createChecks } from "./checks.ts";

const roles: Readonly<Record<number, InstanceRole>> = {
  [PluginRole.PLUGIN_ROLE_CONTROLLER]: "controller",
  [PluginRole.PLUGIN_ROLE_NODE]: "node",
  [PluginRole.PLUGIN_ROLE_MONOLITH]: "monolith",
};

const defaultTimeMs = 30_000;
const mostTimeMs = 600_000;

export function instanceFrom(request: PreparePluginRequest): HostedInstance {
  const { plugin, allocation, hostFilesystem, restartInUse } = request;
  const socketDir = request.socketDir === "" ? "/csi" : request.socketDir;
  const publishDir = request.publishDir === "" ? "/local/csi" : request.publishDir;
  const role = roles[request.role];
  const checks = createChecks();
  checkWhich(checks, { plugin, allocation });
  checks.that(role !== undefined, "role", "has to be CONTROLLER, NODE or MONOLITH");
  checkDirectory(checks, "socket_dir", socketDir, maxSocketPathBytes - "/csi.sock".length);
  checkDirectory(checks, "publish_dir", publishDir, maxRootBytes);
  checks.that(!isUnder(publishDir, socketDir), "publish_dir", `lies inside of socket_dir (${socketDir})`);
  checks.that(
    publishDir === socketDir || !isUnder(socketDir, publishDir),
    "socket_dir",
    `lies inside of publish_dir (${publishDir})`,
  );
  const healthTimeoutMs = timeFrom(checks, "health_timeout", request.healthTimeout);
  checks.that(healthTimeoutMs > 0, "health_timeout", "has to be more than nothing");
  checks.end();
  return {
    plugin,
    allocation,
    role: role ?? "node",
    socketDir,
    publishDir,
    healthTimeoutMs,
    hostFilesystem,
    restartInUse,
  };
}

function checkDirectory(checks: Checks, field: string, directory: string, mostBytes: number): void {
  const bytes = Buffer.byteLength(directory);
  checks.that(isPlainPath(directory), field, "has to be an absolute path without empty, dotted or control parts");
  checks.that(bytes <= mostBytes, field, `has ${bytes} bytes, ${mostBytes} are allowed: what lies in it has a limit`);
  const reserved = ["/dev", "/proc", "/sys"].find((taken) => isUnder(directory, taken));
  checks.that(reserved === undefined, field, `lies in ${reserved}, which is the kernel's`);
}

/** Milliseconds; 30 s when absent. */
function timeFrom(checks: Checks, field: string, duration: Duration | undefined): number {
  if (duration === undefined) return defaultTimeMs;
  const ms = msOfDuration(duration);
  checks.that(ms !== undefined && ms <= mostTimeMs, field, `has to be at most ${mostTimeMs / 1000} s`);
  return ms ?? 0;
}

function checkWhich(checks: Checks, { plugin, allocation }: InstanceKey): void {
  checks.that(isPluginName(plugin), "plugin", "has to be a plugin's name: 1 to 63 letters, digits, dashes and dots");
  checks.text("allocation", allocation);
}

type Which = Pick<StopOrder, "allocation" | "plugin">;

function checkedWhich(checks: Checks, { allocation, plugin }: InstanceKey): Which {
  if (plugin !== "") checkWhich(checks, { plugin, allocation });
  else checks.text("allocation", allocation);
  return { allocation, plugin: plugin === "" ? undefined : plugin };
}

export function whichFrom(request: SupervisePluginRequest): Which {
  const checks = createChecks();
  const which = checkedWhich(checks, request);
  checks.end();
  return which;
}

export function stopFrom({ allocation, plugin, waitFor, leaveVolumes }: StopPluginRequest): StopOrder {
  const checks = createChecks();
  const which = checkedWhich(checks, { allocation, plugin });
  const waitMs = timeFrom(checks, "wait_for", waitFor);
  checks.end();
  return { ...which, waitMs, leaveVolumes };
}

export interface HostPlaces {
  /** In the instance's own directory. */
  readonly socket: string;
  readonly rootDir: string;
}

/** A plugin that only talks to its backend sees nothing of the host but its socket. */
export function preparedMessage(
  { role, socketDir, publishDir, hostFilesystem }: HostedInstance,
  { socket, rootDir }: HostPlaces,
): DeepPartial<PreparePluginResponse> {
  if (hostFilesystem) return { mounts: [], environment: { CSI_ENDPOINT: `unix://${socket}` }, socket };
  const shared = MountPropagation.MOUNT_PROPAGATION_BIDIRECTIONAL;
  const own = { hostPath: path.dirname(socket), containerPath: socketDir, readOnly: false, propagation: shared };
  const onNode = [
    { hostPath: rootDir, containerPath: publishDir, readOnly: false, propagation: shared },
    {
      hostPath: "/dev",
      containerPath: "/dev",
      readOnly: false,
      propagation: MountPropagation.MOUNT_PROPAGATION_PRIVATE,
    },
  ];
  return {
    mounts: serves(role, "node") ? [own, ...onNode] : [own],
    environment: { CSI_ENDPOINT: `unix://${socketDir}/csi.sock` },
    socket,
  };
}

const events: Record<SupervisionWord, SupervisionEvent> = {
  waiting: SupervisionEvent.SUPERVISION_EVENT_WAITING,
  ready: SupervisionEvent.SUPERVISION_EVENT_READY,
  unhealthy: SupervisionEvent.SUPERVISION_EVENT_UNHEALTHY,
  healthy: SupervisionEvent.SUPERVISION_EVENT_HEALTHY,
  "restart-wanted": SupervisionEvent.SUPERVISION_EVENT_RESTART_WANTED,
  stopped: SupervisionEvent.SUPERVISION_EVENT_STOPPED,
};

export const stepMessage = (
  { word, message, at }: SupervisionStep,
  fingerprint: PluginFingerprint | undefined,
): DeepPartial<SupervisePluginResponse> => ({ event: events[word], message, at: new Date(at), fingerprint });

export const instanceMessage = (view: InstanceView): DeepPartial<Instance> => ({
  plugin: view.plugin,
  allocation: view.allocation,
  current: view.current,
  fingerprint: view.fingerprint,
  registeredAt: view.registeredAt === 0 ? undefined : new Date(view.registeredAt),
});
