import type { Claim } from "../../domain/claim/claim.ts";
import { checkId, checkOptionalId } from "../../domain/limits.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import type { FiguresWanted, VolumeSample } from "../../domain/volume/volume-sample.ts";
import type { Figures } from "../../ports.ts";
import type { CommandDeps } from "../command-deps.ts";
import { nodeNotFound, volumeNotFound } from "../errors.ts";
import type { StatsQueries, VolumeFigures } from "./stats-model.ts";
import { checkRef, refuse } from "./validate-volume.ts";
import { volumesInNamespace } from "./volume-queries.ts";

/** Claims whose publication the agent can measure. */
const publishedOn = (volume: VolumeRecord, node: string): readonly Claim[] =>
  Object.values(volume.claims).filter((c) => c.node === node && c.state === "ACTIVE");

const wanted = (volume: VolumeRecord, claims: readonly Claim[]): FiguresWanted => ({
  volumeUid: volume.uid,
  since: Math.max(0, ...claims.map((c) => c.activeAt ?? 0)),
});

const figures = (
  volume: VolumeRecord,
  node: string,
  claims: readonly Claim[],
  sample: VolumeSample,
): VolumeFigures => ({
  namespace: volume.namespace,
  volume: volume.id,
  node,
  claimUids: claims.map((c) => c.uid),
  sample,
});

const notPublished = (volume: VolumeRecord, node: string, now: number): VolumeSample => ({
  volumeUid: volume.uid,
  usage: [],
  error: {
    reason: "VOLUME_NOT_HERE",
    message: `nothing of volume ${volume.namespace}/${volume.id} is published on node ${node}`,
    at: now,
  },
});

/** How full volumes are, as their agents measured them last. A node that does not answer is said so, volume by volume. */
export interface VolumeStatsDeps extends Pick<CommandDeps, "records" | "nodes" | "clock"> {
  readonly figures: Figures;
}

export const createVolumeStats = (deps: VolumeStatsDeps): StatsQueries => ({
  async volumeStats({ node, ...ref }) {
    refuse([...checkRef(ref), ...checkOptionalId("node", node)]);
    const found = await deps.records.recent(ref);
    if (found === undefined) throw volumeNotFound(ref);
    const { volume } = found;
    const nodes = [...new Set(Object.values(volume.claims).flatMap((c) => (c.state === "ACTIVE" ? [c.node] : [])))];
    const asked = node === "" ? nodes : [node];
    const parts = await Promise.all(
      asked.map(async (name) => {
        const claims = publishedOn(volume, name);
        if (claims.length === 0) return [figures(volume, name, [], notPublished(volume, name, deps.clock.now()))];
        const samples = await deps.figures.of(name, [wanted(volume, claims)]);
        return samples.map((sample) => figures(volume, name, claims, sample));
      }),
    );
    return { ...found, nodes: parts.flat() };
  },

  async nodeStats({ name, namespace }, { size, after }) {
    refuse(checkId("name", name));
    if (deps.nodes.get(name) === undefined) throw deps.nodes.damage?.(name) ?? nodeNotFound(name);
    const { volumes, next } = await volumesInNamespace(
      deps.records,
      ["claim-node", name],
      { namespace },
      { after, limit: size },
    );
    const published = volumes
      .map(({ volume }) => ({ volume, claims: publishedOn(volume, name) }))
      .filter(({ claims }) => claims.length > 0);
    const samples = await deps.figures.of(
      name,
      published.map(({ volume, claims }) => wanted(volume, claims)),
    );
    const items = published.flatMap(({ volume, claims }, i) => {
      const sample = samples[i];
      return sample === undefined ? [] : [figures(volume, name, claims, sample)];
    });
    return { items, next };
  },
});
