import type { Figures } from "./figures.ts";
import type { HotPath } from "./hot-path.ts";
import { number, row } from "./support/report-row.ts";

const latencyRows = (verb: string, { floor, product, ratio }: HotPath): readonly string[] => [
  row(
    verb,
    floor.overhead.p50,
    floor.overhead.p99,
    product.overhead.p50,
    product.overhead.p99,
    `${number(ratio)} x`,
    product.pluginMs.p50,
    floor.pluginMs.p50,
  ),
];

const latency = (title: string, { claim, release }: NonNullable<Figures["hotPath"]>): readonly string[] => [
  title,
  row("milliseconds", "floor p50", "p99", "ours p50", "p99", "ratio", "plugins p50", "floor's p50"),
  ...latencyRows("claim", claim),
  ...latencyRows("release", release),
  "",
];

const counts = ({ claim, release }: NonNullable<Figures["hotPath"]>): readonly string[] => {
  const commands = [...new Set([claim, release].flatMap(({ redisCommands }) => Object.keys(redisCommands)))].sort();
  const syncs = ({ journalSyncs }: HotPath): string | number => journalSyncs ?? "unknown";
  return [
    "Counted for each (one at a time, background work included)",
    row("", "claim", "release"),
    row("store commits", claim.commits, release.commits),
    ...commands.map((name) => row(`Redis: ${name}`, claim.redisCommands[name] ?? 0, release.redisCommands[name] ?? 0)),
    row("journal syncs", syncs(claim), syncs(release)),
    row("plugin calls", claim.product.pluginCalls, release.product.pluginCalls),
    "",
  ];
};

const cpu = ({ claim, release }: NonNullable<Figures["hotPath"]>): readonly string[] => [
  "CPU milliseconds for each",
  row("", "claim", "floor", "release", "floor"),
  ...Object.keys(claim.cpuMs.product).map((part) => {
    const of = (from: Readonly<Record<string, number>>): string | number => from[part] ?? "";
    return row(
      part,
      of(claim.cpuMs.product),
      of(claim.cpuMs.floor),
      of(release.cpuMs.product),
      of(release.cpuMs.floor),
    );
  }),
  "",
];

/** Of the controller and the agent, which are those that speak TLS. */
const cpuByTls = (without: Figures["tracedHotPath"], by: NonNullable<Figures["tlsHotPath"]>): readonly string[] => {
  const sum = (hotPath: HotPath | undefined, side: "product" | "floor"): number | string => {
    const parts = hotPath?.cpuMs[side];
    return parts === undefined ? "not run" : (parts["controller"] ?? 0) + (parts["agent"] ?? 0);
  };
  const line = (what: string, found: Figures["tracedHotPath"]): string =>
    row(
      what,
      sum(found?.claim, "product"),
      sum(found?.claim, "floor"),
      sum(found?.release, "product"),
      sum(found?.release, "floor"),
    );
  return [
    "CPU milliseconds of the controller and the agent for each",
    row("", "claim", "floor", "release", "floor"),
    line("without TLS", without),
    line("by TLS", by),
    "",
  ];
};

/** What one claim and one release cost, in each section that asks for it. */
export const hotPathTables = (figures: Figures): readonly string[] => {
  const { hotPath, tracedHotPath, besideStillPlugin, tlsHotPath } = figures;
  return [
    ...(hotPath === undefined
      ? []
      : [
          ...latency("One at a time, tracing off, beside a bare floor whose plugin does nothing", hotPath),
          ...counts(hotPath),
          ...cpu(hotPath),
        ]),
    ...(tracedHotPath === undefined
      ? []
      : [
          ...latency(
            "One at a time, every span exported, beside a floor that does the same with the same plugins",
            tracedHotPath,
          ),
          ...cpu(tracedHotPath),
        ]),
    ...(besideStillPlugin === undefined
      ? []
      : latency("The same beside a floor whose plugin does nothing (told, not judged: ADR 8)", besideStillPlugin)),
    ...(tlsHotPath === undefined
      ? []
      : [
          ...latency("One at a time, every span exported and every TCP connection by TLS, on both sides", tlsHotPath),
          ...cpu(tlsHotPath),
          ...cpuByTls(tracedHotPath, tlsHotPath),
        ]),
  ];
};
