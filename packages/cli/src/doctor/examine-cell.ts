/** What a controller tells of its cell, looked through for what somebody should know. */
import { type Finding, fault, fine, warning } from "@holdfast/shared/doctor/finding";
import { tlsTrouble } from "@holdfast/shared/doctor/tls-trouble";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { VerificationScope } from "@holdfast/shared/gen/holdfast/v1/common";
import { type Node, NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { type Plugin, PluginHealth } from "@holdfast/shared/gen/holdfast/v1/plugin";
import type { VetResponse } from "@holdfast/shared/gen/holdfast/v1/repair";
import { allPages, pageSize } from "../commands/all-pages.ts";
import type { Clients } from "../frame/clients.ts";
import { durationWords } from "../words/duration.ts";

const skewMs = 5_000;
const shownStuck = 20;

const ofNode = (node: Node, now: number): readonly Finding[] => {
  const found: Finding[] = [];
  if (node.state === NodeState.NODE_STATE_SUSPECT)
    found.push(
      fault(
        "node-silent",
        node.name,
        `it is SUSPECT: ${node.stateMessage}`,
        "look at the agent on that host (systemctl status holdfast-node-agent) and at the network between: the agent dials the controllers; its claims stay",
      ),
    );
  if (node.blocked !== undefined)
    found.push(fault("node-blocked", node.name, node.blocked.message, node.blocked.clearWith));
  if (node.verificationScope === VerificationScope.VERIFICATION_SCOPE_OWN_NAMESPACE)
    found.push(
      warning(
        "node-own-namespace",
        node.name,
        "its agent does not see the mounts of the host's other processes",
        "run the agent as root in the host's PID namespace (compose: pid: host) with CAP_SYS_PTRACE; its `check` on that host says which of the two it lacks",
      ),
    );
  if (node.lastHeartbeat !== undefined && node.lastHeartbeat.getTime() - now > skewMs)
    found.push(
      warning(
        "clock-skew",
        node.name,
        `was heard ${durationWords(node.lastHeartbeat.getTime() - now)} in the future of this machine: its clock and the controller's differ`,
        "set both clocks by NTP (timedatectl set-ntp true)",
      ),
    );
  for (const { plugin, health, healthMessage, blocked } of node.plugins) {
    if (blocked !== undefined)
      found.push(fault("plugin-quarantined", `${plugin} on ${node.name}`, blocked.message, blocked.clearWith));
    else if (health === PluginHealth.PLUGIN_HEALTH_UNHEALTHY)
      found.push(
        fault(
          "plugin-unhealthy",
          `${plugin} on ${node.name}`,
          healthMessage,
          "look at the log of the plugin, and restart it",
        ),
      );
  }
  return found;
};

const ofStore = ({ open, findings }: VetResponse, address: string): readonly Finding[] => {
  const messages = findings.map(({ message }) => message);
  if (open)
    return messages.map((message) =>
      fault("plugins-barred", address, message, "do what it says; holdfast repair vet shows whether it helped"),
    );
  const what = `the store is not trusted, nothing is granted: ${messages.join("; ")}`;
  const cure = "holdfast repair vet shows what is missing; bring it back, or take it on you with --accept";
  return [fault("store-shut", address, what, cure)];
};

const ofPlugin = (plugin: Plugin): readonly Finding[] => [...ofTokens(plugin), ...ofUse(plugin)];

const ofTokens = ({ name, tokensUnsignedBecause: why }: Plugin): readonly Finding[] =>
  why === ""
    ? []
    : [
        fault(
          "tokens-unsigned",
          name,
          `its profile asks for identity tokens, and its claims are blocked: ${why}`,
          "give every controller HOLDFAST_TOKEN_KEYS and HOLDFAST_TOKEN_ISSUER",
        ),
      ];

const ofUse = ({ name, schedulable, unschedulableBecause, findings }: Plugin): readonly Finding[] => [
  ...(schedulable ? [] : [fault("plugin-unusable", name, unschedulableBecause, `holdfast plugin status ${name}`)]),
  ...findings.map((said) =>
    warning("plugin-odd", name, said, "take another version of the driver, or tell its makers"),
  ),
];

export const examineCell = async (clients: Clients, address: string, now: number): Promise<readonly Finding[]> => {
  try {
    const found: Finding[] = [...ofStore(await clients.repair.vet({ accept: false }), address)];
    for await (const { nodes } of allPages((pageToken) => clients.nodes.listNodes({ pageSize, pageToken })))
      found.push(...nodes.flatMap((node) => ofNode(node, now)));
    for await (const { plugins } of allPages((pageToken) => clients.plugins.listPlugins({ pageSize, pageToken })))
      found.push(...plugins.flatMap(ofPlugin));
    const { stuck } = await clients.repair.listStuck({ pageSize: shownStuck, pageToken: "" });
    for (const { namespace, volume, workload, node, blocked } of stuck)
      found.push(
        fault(
          "stuck",
          namespace === "" ? node : `${namespace}/${volume}${workload === "" ? "" : ` of ${workload}`}`,
          `${blocked?.reason ?? ""}: ${blocked?.message ?? ""}`,
          blocked?.clearWith || `holdfast volume explain ${volume} --namespace ${namespace}`,
        ),
      );
    return [fine("controller", address, "answers"), ...found];
  } catch (error) {
    if (!isHoldfastError(error) || !["unavailable", "deadline", "unknown", "cancelled"].includes(error.kind))
      throw error;
    return [
      tlsTrouble(address, error.message) ??
        fault(
          "controller-unreachable",
          address,
          `does not answer: ${error.message}`,
          "start the controller, or set --address, HOLDFAST_ADDRESS; beyond its own host it is reached only where HOLDFAST_LISTEN says so",
        ),
    ];
  }
};
