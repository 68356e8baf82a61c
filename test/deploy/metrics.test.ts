/** What alerts and dashboards ask for is what the services tell: names and labels, by docs/metrics.md, which is held against the code. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { commandSources } from "@holdfast/cli/commands/commands";
import { loadCommands } from "@holdfast/cli/frame/command-source";
import type { BlockedReason } from "@holdfast/controller/domain/blocked";
import { type FindingKind, findingKinds } from "@holdfast/controller/gate/finding";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";

const commands = await loadCommands(commandSources);
const root = path.resolve(import.meta.dirname, "../..");
const read = (file: string): string => readFileSync(path.join(root, file), "utf8");

const documented = new Map(
  [...read("docs/metrics.md").matchAll(/^\| `([a-z_]+)` \|([^|]*)\|/gm)].map(([, name = "", labels = ""]) => [
    name,
    [...labels.matchAll(/`([a-z_]+)`/g)].map(([, label]) => label ?? ""),
  ]),
);
/** Prometheus adds these itself. */
const fromScraping = ["instance", "job", "le"];
const ofProcess = /^(process|nodejs)_/;

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}
const { groups } = parse(read("deploy/prometheus/alerts.yml")) as {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
};
const rules = groups.flatMap((group) => group.rules);
const { panels } = JSON.parse(read("deploy/grafana/dashboards/holdfast.json")) as {
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
};
/** Of each indicator: its title, its queries. */
const levels = read("docs/slo.md")
  .split(/^(?=## )/m)
  .map((section) => ({
    by: /^## (.*)/.exec(section)?.[1] ?? "",
    queries: [...section.matchAll(/^```promql\n(.*)\n```$/gm)].map(([, query = ""]) => query),
  }));
const asked = [
  ...levels.flatMap(({ by, queries }) => queries.map((expr) => ({ by, expr, text: "" }))),
  ...rules.map(({ alert, expr, annotations }) => ({ by: alert, expr, text: Object.values(annotations).join(" ") })),
  ...panels.flatMap(({ title, targets }) =>
    targets.map(({ expr, legendFormat }) => ({ by: title, expr, text: legendFormat.replaceAll("{{", "{{ $labels.") })),
  ),
];

const metricsIn = (expr: string): readonly string[] =>
  [...expr.matchAll(/\b((?:holdfast|csi|process|nodejs)_[a-z_]+)/g)].map(([, name]) =>
    (name ?? "").replace(/_(bucket|count|sum)$/, ""),
  );
const labelsIn = (expr: string, text: string): readonly string[] => [
  ...[...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(",").map((label) => label.trim())),
  ...[...expr.matchAll(/[{,]([a-z_]+)[!=~]+"/g)].map(([, label]) => label ?? ""),
  ...[...text.matchAll(/\$labels\.([a-z_]+)/g)].map(([, label]) => label ?? ""),
];

test("there is something to hold them against", () => {
  expect(documented.size).toBeGreaterThan(20);
  expect(rules.length).toBeGreaterThan(5);
  expect(panels.length).toBeGreaterThan(10);
});

describe.each(asked)("$by", ({ expr, text }) => {
  test("asks for metrics and labels that there are", () => {
    const names = metricsIn(expr);
    expect(names.length).toBeGreaterThan(0);
    for (const name of names) if (!ofProcess.test(name)) expect(documented.has(name), name).toBe(true);
    const known = [...fromScraping, ...names.flatMap((name) => documented.get(name) ?? [])];
    for (const label of labelsIn(expr, text)) expect(known, `${label} of ${names.join(", ")}`).toContain(label);
  });
});

/** What is said of a command: its path, as far as the words are those of one. */
const commandsIn = (text: string): readonly string[] =>
  [...text.matchAll(/\bholdfast (doctor|[a-z]+ [a-z][a-z-]*)/g)].map(([, words = ""]) => words);
const known = new Set(commands.map(({ path: words }) => words.join(" ")));

test("every indicator of docs/slo.md has its row, a query or a command, and alerts that there are", () => {
  const rows = [...read("docs/slo.md").matchAll(/^\| \[([^\]]+)\]\(#([^)]+)\) \|[^|]+\|([^|]+)\|$/gm)];
  expect(rows.length).toBeGreaterThan(8);
  const sections = levels.filter(({ by }) => by !== "");
  expect(rows.map(([, , anchor]) => anchor)).toEqual(sections.map(({ by }) => by.toLowerCase().replaceAll(" ", "-")));
  const names = new Set(rules.map(({ alert }) => alert));
  for (const [, indicator = "", anchor = "", cell = ""] of rows) {
    const alerts = [...cell.matchAll(/`(\w+)`/g)].map(([, alert]) => alert);
    // What is no series has no alert here.
    expect(alerts.length > 0, indicator).toBe(anchor !== "doctor-finds-nothing");
    for (const alert of alerts) expect(names, indicator).toContain(alert);
  }
  for (const { by, queries } of sections) expect(queries.length > 0, by).toBe(by !== "Doctor finds nothing");
});

test("every alert says what to do, and its commands are commands", () => {
  for (const { alert, annotations } of rules) {
    expect(annotations["do"], alert).toBeTruthy();
    expect(annotations["summary"], alert).toBeTruthy();
    for (const command of commandsIn(annotations["do"] ?? "")) expect(known, alert).toContain(command);
  }
});

test("the runbook has a line for every alert, and for no other", () => {
  const lines = [...read("docs/operations.md").matchAll(/^\| `(Holdfast[A-Za-z]+)` \|[^|]+\|([^|]+)\|$/gm)];
  expect(lines.map(([, alert]) => alert).sort()).toEqual(rules.map(({ alert }) => alert).sort());
  for (const [, alert, cure = ""] of lines)
    for (const command of commandsIn(cure)) expect(known, alert).toContain(command);
});

/** Typed: a reason or kind that the code has no more does not compile. */
const barred: BlockedReason = "CALL_BARRED";
const findings: FindingKind = "NOT_PROMISED";
/** What a person has to hear of before anybody looks for it: what its alert asks for, and its panel. */
const states: readonly (readonly [state: string, alert: string, panel: string])[] = [
  [
    "a bar older than a minute",
    `holdfast_blocked_oldest_seconds{reason="${barred}"} > 60`,
    "holdfast_blocked_oldest_seconds",
  ],
  [
    "such a bar of a snapshot",
    `holdfast_snapshots_blocked_oldest_seconds{reason="${barred}"} > 60`,
    "holdfast_snapshots_blocked_oldest_seconds",
  ],
  ["a gate that is silent", "holdfast_gates_silent > 0", "holdfast_gates_silent"],
  ["such a gate of a snapshot", "holdfast_snapshots_gates_silent > 0", "holdfast_snapshots_gates_silent"],
  ["a conflict of lives", "holdfast_nodes_in_conflict > 0", "holdfast_nodes_in_conflict"],
  ["an agent of another installation", "holdfast_agents_of_others > 0", "holdfast_agents_of_others"],
  ["a node that is pending", "holdfast_nodes_pending > 0", "holdfast_nodes_pending"],
  [
    "a generation that is not promised",
    `holdfast_vetting_findings{kind=~"${findings}|NOT_TOLD|FORGOTTEN_NODE"}) > 0`,
    "by (kind) (holdfast_vetting_findings)",
  ],
  [
    "a backup that is late",
    "holdfast_backup_age_seconds > 2 * holdfast_backup_interval_seconds",
    "holdfast_backup_age_seconds",
  ],
];
test.each(states)("%s has an alert, whose line is in the runbook, and a panel", (_state, alert, panel) => {
  const named = rules.filter(({ expr }) => expr.includes(alert)).map((rule) => rule.alert);
  expect(named).toHaveLength(1);
  expect(read("docs/operations.md")).toContain(`| \`${named[0]}\` |`);
  expect(panels.filter(({ targets }) => targets.some(({ expr }) => expr.includes(panel)))).not.toEqual([]);
});

test("what they ask for by kind or reason is a kind or reason of the code", () => {
  const kindsIn = (texts: readonly string[]): readonly string[] =>
    texts.flatMap((text) =>
      [...text.matchAll(/\b(?:kind|reason)=~?"([A-Z_|]+)"/g)].flatMap(([, list = ""]) => list.split("|")),
    );
  const words: readonly string[] = [...findingKinds, barred];
  const named = kindsIn(asked.map(({ expr }) => expr));
  expect(named.length).toBeGreaterThan(3);
  for (const word of named) expect(words).toContain(word);
});
