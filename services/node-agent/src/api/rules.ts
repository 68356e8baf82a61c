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

/** Over the streams that the agent keeps: whoever answered where it dialled. */
const controller: AccessRow<unknown, unknown> = { roles: ["controller"] };
/** Who may open the socket; 0660 and its group say who that is, since Node has no SO_PEERCRED. */
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
  // Served over streams, and so by no server.
  access.requireRows(AgentServiceDefinition);
  return access;
};
