import {
  CheckPlacementResponse,
  type NodePlacement,
  PlacementObstacle,
} from "@holdfast/shared/gen/holdfast/v1/placement";
import type { Command } from "../frame/command.ts";
import { shown } from "../frame/output.ts";
import { tableText } from "../frame/tables.ts";
import { enumWords } from "../words/enum-words.ts";
import { allPages, pageSize } from "./all-pages.ts";

const obstacles = enumWords<PlacementObstacle>(PlacementObstacle, "PLACEMENT_OBSTACLE_");

export const checkPlacement: Command = {
  path: ["placement", "check"],
  summary: "say where volumes could be used, and why not elsewhere",
  description: "Nothing is reserved. Every obstacle is named, not only the first.",
  args: [{ name: "volumes", help: "the volumes' ids; volume:ro only reads", many: true, completes: "volume" }],
  options: [
    { flags: "--workload <workload>", help: "who would claim; its present claims do not count against it" },
    { flags: "--node <node>", help: "only this node; may be repeated", many: true, completes: "node" },
    { flags: "--feasible", help: "leave out the nodes that will not do" },
  ],
  examples: [{ line: "holdfast placement check data logs", says: "which nodes could have both" }],
  async run({ clients, settings, out }, input) {
    const claims = input.args("volumes").map((text) => ({
      volume: text.replace(/:ro$/, ""),
      readOnly: text.endsWith(":ro"),
    }));
    const request = {
      namespace: settings.namespace,
      // Nobody has claims under this name: what others hold counts.
      workload: input.text("workload") ?? "placement-check",
      claims,
      nodes: [...input.list("node")],
      feasibleOnly: input.flag("feasible"),
    };
    const nodes: NodePlacement[] = [];
    for await (const page of allPages((pageToken) =>
      clients.placement.checkPlacement({ ...request, pageSize, pageToken }),
    ))
      nodes.push(...page.nodes);
    out.answer(shown("holdfast.v1.CheckPlacementResponse", CheckPlacementResponse, { nodes, nextPageToken: "" }), () =>
      nodes.length === 0
        ? "no node\n"
        : tableText(
            [
              { title: "NODE", of: ({ node }) => node },
              { title: "FEASIBLE", of: ({ feasible }) => (feasible ? "yes" : "no") },
              { title: "SCORE", of: ({ feasible, score }) => (feasible ? String(score) : "-") },
              {
                title: "BECAUSE",
                of: ({ reasons }) =>
                  reasons
                    .map((r) => `${obstacles.of(r.obstacle)}${r.volume === "" ? "" : ` ${r.volume}`}: ${r.message}`)
                    .join("; ") || "-",
              },
            ],
            nodes,
          ),
    );
  },
};
