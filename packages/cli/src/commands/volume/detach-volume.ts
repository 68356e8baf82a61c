import { type Claim, ReleaseClaimsResponse } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Command } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { tableText } from "../../frame/tables.ts";
import { allPages, pageSize } from "../all-pages.ts";
import { awaitReleased } from "../claim/await-claims.ts";
import { claimColumns } from "../claim/claim-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { volumeArg } from "./show-volume.ts";

export const detachVolume: Command = {
  path: ["volume", "detach"],
  summary: "release every claim to a volume on one node, so that it is detached there",
  description:
    "Nothing is pulled away: each claim is released as `claim release` would, and a process that still uses the volume is named.",
  args: [volumeArg, { name: "node", help: "the node's name", completes: "node" }],
  options: [noWaitOption],
  examples: [{ line: "holdfast volume detach data node-a", says: "free it there, and wait until it is" }],
  async run(context, input) {
    const { clients, settings, out, io } = context;
    const filter = { namespace: settings.namespace, volume: input.arg("volume"), node: input.arg("node") };
    const held: Claim[] = [];
    for await (const page of allPages((pageToken) => clients.claims.listClaims({ filter, pageSize, pageToken })))
      held.push(...page.claims);
    // A name that is wrong is no volume, or node, that is free.
    if (held.length === 0) {
      await clients.volumes.getVolume({ namespace: settings.namespace, id: filter.volume });
      await clients.nodes.getNode({ name: filter.node });
    }
    const workloads = held.map(({ namespace, workload, uid }) => ({ namespace, workload, claimUids: [uid] }));
    const asked: Claim[] = [];
    for (const key of workloads) asked.push(...(await clients.claims.releaseClaims({ ...key, aliases: [] })).claims);
    const what = `${filter.namespace}/${filter.volume} to be free on ${filter.node}`;
    const look = `holdfast claim list --volume ${filter.volume} --node ${filter.node} --namespace ${filter.namespace}`;
    const released = input.flag("wait") ? await awaitReleased(context, what, workloads, look) : asked;
    out.answer(shown("holdfast.v1.ReleaseClaimsResponse", ReleaseClaimsResponse, { claims: [...released] }), () =>
      released.length === 0
        ? `nothing of ${settings.namespace}/${filter.volume} is claimed on ${filter.node}\n`
        : tableText(claimColumns(io.now()), released),
    );
  },
};
