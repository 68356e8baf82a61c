/**
 * Gives an agent the secrets that a plugin of its node wants with NodeGetStorageHealth.
 *
 * HS1 Only a READY node that has a healthy instance of the plugin with GET_STORAGE_HEALTH is given them: what came back as somebody else
 *     is never healthy. HS2 They are read for each question, and kept nowhere.
 */
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { NodeRecord } from "../domain/node/node.ts";
import type { Nodes, PluginProfiles } from "../ports.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { AgentLink } from "./open-stream.ts";

const tellsStorage = "node:GET_STORAGE_HEALTH";

const mayAsk = ({ state, plugins }: NodeRecord, plugin: string): boolean =>
  state === "READY" &&
  plugins.some((one) => one.name === plugin && one.health === "HEALTHY" && one.capabilities[tellsStorage] === "yes");

export const createHealthSecrets = (deps: {
  readonly nodes: Pick<Nodes, "get">;
  readonly profiles: Pick<PluginProfiles, "of">;
  readonly secrets: Pick<Secrets, "resolve">;
}): Pick<AgentLink, "getHealthSecrets"> => ({
  async getHealthSecrets({ node, plugin }) {
    const record = deps.nodes.get(node)?.record;
    if (record === undefined || !mayAsk(record, plugin))
      throw new HoldfastError({
        kind: "precondition",
        reason: "PLUGIN_NOT_READY",
        message: `node ${node} is given no secrets of plugin ${plugin}: it is not READY, or has no healthy instance of it that tells its storage's health`,
        metadata: { node, plugin },
      }); // HS1
    const wanted = deps.profiles.of(plugin).nodeHealthSecret;
    const use = { volume: undefined, method: "NodeGetStorageHealth" };
    return { secrets: { ...(await deps.secrets.resolve(wanted?.ref, wanted?.namespace, use)) } }; // HS2
  },
});
