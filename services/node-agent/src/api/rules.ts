/**
 * Who may call what of an agent: one row for each method. docs/security.md has the same table in words; a test compares the two cell by
 * cell.
 */
import { PluginHostServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/plugin_host";
import { WorkloadServiceDefinition } from "@holdfast/shared/gen/holdfast/agent/v1/workload";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import {
  type Access,
  type AccessRow,
  type AccessRows,
  accessRows,
  createAccess,
  type Trust,
} from "@holdfast/shared/grpc/access";

/** The peer at the other end of a stream that the agent dialled. */
const controller: AccessRow<unknown, unknown> = { roles: ["controller"] };
/** A program that may open the socket. Mode 0660 and the group of the socket decide that, since Node has no SO_PEERCRED. */
const local: AccessRow<unknown, unknown> = { roles: ["local"] };

const rows = new Map<string, AccessRow<unknown>>([
  ...accessRows(AgentServiceDefinition, {
    publish: controller,
    release: controller,
    expand: controller,
    stats: controller,
    inventory: controller,
    raiseFloor: controller,
    relay: controller,
    relayStream: controller,
    quiesce: controller,
    renew: controller,
  }),
  ...accessRows(WorkloadServiceDefinition, {
    prepareWorkload: local,
    releaseWorkload: local,
    getWorkload: local,
    getWorkloadStats: local,
    watchWorkloads: local,
  }),
  ...accessRows(PluginHostServiceDefinition, {
    preparePlugin: local,
    supervisePlugin: local,
    stopPlugin: local,
    acceptPlugin: local,
    listInstances: local,
    watchInstances: local,
  }),
]);

/** A copy, by the path of the method. */
export const agentRules = (): Map<string, AccessRow<unknown>> => new Map(rows);

/** None of these methods reaches further for one caller of its role than for another. */
export const agentAccess = (trust: Trust, table: AccessRows<unknown> = rows): Access => {
  const access = createAccess({ trust, rows: table, judge: () => undefined });
  // No server adds this service, since it is served over streams: its rows are checked here.
  access.requireRows(AgentServiceDefinition);
  return access;
};
