/** What there is in a cell and what it does now, in one look. */
import type { Claim } from "@holdfast/shared/gen/holdfast/v1/claim";
import { ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { CallUnderWay } from "@holdfast/shared/gen/holdfast/v1/common";
import type { Node } from "@holdfast/shared/gen/holdfast/v1/node";
import type { Volume } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Command } from "../frame/command.ts";
import type { Context } from "../frame/context.ts";
import { clearScreen, showAgain, watchOption } from "../frame/show-again.ts";
import { tableText } from "../frame/tables.ts";
import { ago, ahead } from "../words/moment.ts";
import { allRows, pageSize } from "./all-pages.ts";
import { claimStates } from "./claim/claim-words.ts";
import { nodeStates } from "./node/node-words.ts";
import { volumeName, volumeStates } from "./volume/volume-words.ts";

interface Subjects {
  readonly volumes: readonly Volume[];
  readonly claims: readonly Claim[];
  readonly nodes: readonly Node[];
}

const subjectsOf = async ({ clients }: Context): Promise<Subjects> => {
  const [volumes, claims, nodes] = await Promise.all([
    allRows(
      (pageToken) => clients.volumes.listVolumes({ pageSize, pageToken }),
      (page) => page.volumes,
    ),
    allRows(
      (pageToken) => clients.claims.listClaims({ pageSize, pageToken }),
      (page) => page.claims,
    ),
    allRows(
      (pageToken) => clients.nodes.listNodes({ pageSize, pageToken }),
      (page) => page.nodes,
    ),
  ]);
  return { volumes, claims, nodes };
};

const counted = <Row>(rows: readonly Row[], kind: (row: Row) => string): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const row of rows) counts[kind(row)] = (counts[kind(row)] ?? 0) + 1;
  return counts;
};

const stateOf = (state: string, blocked: unknown): string => (blocked === undefined ? state : `${state} BLOCKED`);

interface Call extends CallUnderWay {
  readonly subject: string;
}

/** Those that have lasted longest first. */
const callsOf = ({ volumes }: Subjects): readonly Call[] =>
  volumes
    .flatMap((volume) => volume.calls.map((call) => ({ ...call, subject: `volume ${volumeName(volume)}` })))
    .sort((a, b) => (a.since?.getTime() ?? 0) - (b.since?.getTime() ?? 0));

const nodeRows = ({ claims, nodes }: Subjects, calls: readonly Call[]) =>
  nodes.map((node) => {
    const own = claims.filter((claim) => claim.node === node.name);
    return {
      node: node.name,
      state: stateOf(nodeStates.of(node.state), node.blocked),
      claims: own.length,
      active: own.filter(({ state }) => state === ClaimState.CLAIM_STATE_ACTIVE).length,
      blocked: own.filter(({ blocked }) => blocked !== undefined).length,
      calls: calls.filter((call) => call.node === node.name).length,
    };
  });

const countWords = (label: string, rows: number, counts: Readonly<Record<string, number>>): readonly string[] => [
  label,
  String(rows),
  Object.entries(counts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([kind, count]) => `${kind} ${count}`)
    .join(", "),
];

const look = async (context: Context) => {
  const subjects = await subjectsOf(context);
  const calls = callsOf(subjects);
  const { volumes, claims, nodes } = subjects;
  return {
    volumes: counted(volumes, ({ state, blocked }) => stateOf(volumeStates.of(state), blocked)),
    claims: counted(claims, ({ state, blocked }) => stateOf(claimStates.of(state), blocked)),
    nodes: nodeRows(subjects, calls),
    totals: { volumes: volumes.length, claims: claims.length, nodes: nodes.length },
    calls,
  };
};

type Look = Awaited<ReturnType<typeof look>>;

const lookText = ({ io }: Context, { volumes, claims, nodes, totals, calls }: Look): string => {
  const width = io.stdout.terminal ? io.stdout.columns : undefined;
  const counts = [
    countWords("volumes", totals.volumes, volumes),
    countWords("claims", totals.claims, claims),
    countWords("calls", calls.length, {}),
  ];
  const number = (title: string, of: (row: Look["nodes"][number]) => number) => ({
    title,
    of: (row: Look["nodes"][number]) => String(of(row)),
  });
  const now = io.now();
  return [
    `${counts
      .map(([label = "", count = "", kinds = ""]) => `${label.padEnd(8)} ${count.padEnd(6)} ${kinds}`.trimEnd())
      .join("\n")}\n`,
    tableText(
      [
        { title: "NODE", of: ({ node }) => node },
        { title: "STATE", of: ({ state }) => state },
        number("CLAIMS", (row) => row.claims),
        number("ACTIVE", (row) => row.active),
        number("BLOCKED", (row) => row.blocked),
        number("CALLS", (row) => row.calls),
      ],
      nodes,
      width,
    ),
    ...(calls.length === 0
      ? []
      : [
          tableText<Call>(
            [
              { title: "CALL", of: ({ method, node }) => `${method}${node === "" ? "" : ` for ${node}`}` },
              { title: "OF", of: ({ subject }) => subject },
              { title: "SINCE", of: ({ since }) => ago(since, now) },
              { title: "ANSWER DUE", of: ({ deadline }) => ahead(deadline, now) },
            ],
            calls,
            width,
          ),
        ]),
  ].join("\n");
};

const lookJson = ({ volumes, claims, nodes, calls }: Look): string =>
  JSON.stringify({
    volumes,
    claims,
    nodes,
    calls: calls.map(({ subject, method, plugin, instance, node, since, attempt }) => ({
      subject,
      method,
      plugin,
      instance,
      node,
      since,
      attempt,
    })),
  });

export const showTop: Command = {
  path: ["top"],
  summary: "show what there is and what goes on: volumes, claims, nodes, and the calls of plugins that last",
  description:
    "Of every namespace. Reads all records each time: with -w every two seconds, which is not for a cell of many thousands. CPU and memory of the services are in their metrics (docs/metrics.md).",
  options: [watchOption],
  examples: [{ line: "holdfast top -w", says: "again and again, until Ctrl-C" }],
  async run(context, input) {
    const { io, out } = context;
    const again = input.flag("watch");
    await showAgain(io, again, async () => {
      const seen = await look(context);
      const clear = again && io.stdout.terminal ? clearScreen : "";
      io.stdout.write(out.json ? `${lookJson(seen)}\n` : `${clear}${lookText(context, seen)}`);
    });
  },
};
