/** What a plugin was asked since the record was cleared, in a line a call. */
import type { Cluster } from "./cluster.ts";

const changing =
  /^(Create|Delete|ControllerPublish|ControllerUnpublish|NodeStage|NodeUnstage|NodePublish|NodeUnpublish)/;

const changes = async ({ backend }: Cluster) =>
  (await backend.client.record()).filter(({ method }) => changing.test(method));

/** The methods of the calls that changed something, in the order in which they began. */
export const mutatingCalls = async (cluster: Cluster): Promise<readonly string[]> =>
  (await changes(cluster)).map(({ method }) => method);

/** The calls that changed something, as `method volume node`, with the ids that the records have; sorted, for calls of several volumes overlap. */
export const changingCalls = async (
  cluster: Cluster,
  nameOf: ReadonlyMap<string, string>,
): Promise<readonly string[]> =>
  (await changes(cluster))
    .map(({ method, volume = "", node = "" }) => `${method} ${nameOf.get(volume) ?? volume} ${node}`.trim())
    .sort();
