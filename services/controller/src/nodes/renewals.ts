/** Tells the agents when what NodePublishVolume is told may be another: after a change of a plugin's profile, or of a volume's policy. */
import type { PublishingWishes } from "../domain/plugin/publishing.ts";
import type { VolumeRecord } from "../domain/volume/volume.ts";
import type { Nodes, PluginCatalogue, PluginProfiles } from "../ports.ts";
import type { NodeAgentGateway } from "./agent-gateway.ts";

export interface RenewalsOptions {
  readonly profiles: Pick<PluginProfiles, "of" | "onChange">;
  readonly catalogue: Pick<PluginCatalogue, "names" | "of">;
  readonly nodes: Pick<Nodes, "get">;
  readonly agents: Pick<NodeAgentGateway, "renew">;
}

const wishesOf = (profile: PublishingWishes): string =>
  JSON.stringify([
    profile.tokenRequests,
    profile.requiresRepublish,
    profile.republishIntervalMs,
    profile.tokensInVolumeContext,
  ]);

/** Answers whom to tell of a volume whose policy was changed. */
export const createRenewals = ({ profiles, catalogue, nodes, agents }: RenewalsOptions) => {
  const known = new Map(catalogue.names().map((plugin) => [plugin, wishesOf(profiles.of(plugin))]));

  const tell = (names: Iterable<string>, subject: Parameters<NodeAgentGateway["renew"]>[1]): void => {
    for (const name of new Set(names)) {
      const node = nodes.get(name);
      // Each controller that has a stream of the node tells it.
      if (node?.linked === true) void agents.renew(node.record, subject);
    }
  };

  profiles.onChange((plugin) => {
    const wishes = wishesOf(profiles.of(plugin));
    const before = known.get(plugin);
    known.set(plugin, wishes);
    if (before === wishes) return;
    const there = catalogue.of(plugin).map(({ node }) => node);
    tell(
      there.filter((node) => node !== ""),
      { plugin },
    );
  });

  return {
    policyChanged: ({ uid, claims }: VolumeRecord): void =>
      tell(
        Object.values(claims).map(({ node }) => node),
        { volumeUid: uid },
      ),
  };
};
