import type { AgentStreams } from "./agents.ts";
import type { BesideTransfers } from "./beside-transfers.ts";
import type { Figures } from "./figures.ts";
import type { LongMountTable, PublicationMemory } from "./host-measures.ts";
import { hotPathTables } from "./hot-path-tables.ts";
import type { Lanes } from "./lanes.ts";
import type { AgentMemory, VolumeMemory } from "./memory.ts";
import type { Reactions } from "./reactions.ts";
import { type Scale, scaleCalls } from "./scale.ts";
import { apartOf, type Shared } from "./shared-controllers.ts";
import { number, row } from "./support/report-row.ts";
import type { Spread } from "./support/spread.ts";
import type { Throughput } from "./throughput.ts";
import { type Verdict, verdictsOf } from "./verdicts.ts";

const kib = (bytes: number): string => `${number(bytes / 1024, 1)} KiB`;

const throughput = (list: NonNullable<Figures["throughput"]>): readonly string[] => {
  const line = (verb: string, floor: Throughput, product: Throughput): string =>
    row(
      `${verb}, ${product.inFlight} in flight`,
      number(floor.perSecond, 0),
      number(product.perSecond, 0),
      `${number(product.perSecond / floor.perSecond)} x`,
      product.ms.p50,
      product.ms.p99,
      product.cpuMs,
      floor.cpuMs,
    );
  return [
    "Throughput over several nodes, plugin time and mounts in it (the floor has one node, and a plugin that does nothing);",
    "CPU of the controller and the agents for each",
    row("", "floor /s", "holdfast /s", "ratio", "p50 ms", "p99 ms", "CPU ms", "floor CPU"),
    ...list.map(({ floor, product }) => line("claims", floor.claim, product.claim)),
    ...list.map(({ floor, product }) => line("releases", floor.release, product.release)),
    "",
  ];
};

const reactions = (found: Reactions): readonly string[] => {
  const line = (what: string, { p50, p99, count }: Spread): string => row(what, p50, p99, String(count));
  return [
    "Reactions",
    row("milliseconds", "p50", "most", "of"),
    line("released to granted to the next", found.releasedToGranted),
    line("detached to granted to the next", found.detachedToGranted),
    line("released to mounted for the next", found.releasedToMounted),
    line("plugin socket to registered", found.socketToRegistered),
    line("plugin exit to noticed", found.exitToNoticed),
    line("agent exit to shown", found.agentExitToShown),
    "",
  ];
};

const lanes = ({ nodes, attaches, beside }: Lanes): readonly string[] => [
  `Calls of one plugin on ${nodes} nodes, beside each other`,
  row("", "seconds", "at least", "ratio"),
  row(
    `${attaches.count} attaches of 1 s`,
    attaches.seconds,
    attaches.leastSeconds,
    attaches.seconds / attaches.leastSeconds,
  ),
  row("claims' p99 in milliseconds", "calm", "one of 10 s", "ratio"),
  row(`${beside.volumes} volumes, ${beside.rounds} rounds`, beside.calm, beside.oneSlow, beside.ratio),
  "",
];

const askedWords: Readonly<Record<Shared["asked"], string>> = {
  all: "all asked",
  first: "the first asked",
  apart: "each on a store of its own",
};

const sharedBy = (found: readonly Shared[]): readonly string[] => [
  "Controllers on one Redis and one plugin, as many claims in flight for each",
  row("", "claims /s", "CPU ms", "beside 1", "beside apart", "shares"),
  ...found.map(({ asked, shares, claimsPerSecond, cpuMs }) =>
    row(
      `${shares.length}, ${askedWords[asked]}`,
      claimsPerSecond,
      cpuMs,
      cpuMs / (found.find((other) => other.shares.length === 1)?.cpuMs ?? Number.NaN),
      cpuMs / (apartOf(found, shares.length)?.cpuMs ?? Number.NaN),
      `   ${shares.map((share) => number(share, 2)).join(" ")}`,
    ),
  ),
  "",
];

const mib = (bytes: number): string => `${number(bytes / 2 ** 20, 1)} MiB`;

const memory = (volumes: readonly VolumeMemory[], agents: AgentMemory | undefined): readonly string[] => [
  "Memory of the controller, garbage collected",
  row("", "per", "kept", "RSS", "stored each", "made /s", "start ms", "when empty"),
  ...volumes.map((each) =>
    row(
      `${each.volumes} volumes, ${each.store}`,
      "10,000",
      mib(each.keptPerVolume * 10_000),
      mib(each.rssPerVolume * 10_000),
      kib(each.storedPerVolume),
      number(each.createdPerSecond, 0),
      number(each.startMs.full, 0),
      number(each.startMs.empty, 0),
    ),
  ),
  ...(agents === undefined
    ? []
    : [
        row(
          `${agents.agents} agents`,
          "1,000",
          mib(agents.keptPerAgent * 1000),
          mib(agents.rssPerAgent * 1000),
          "",
          number(agents.registeredPerSecond, 0),
        ),
      ]),
  "",
];

const publications = ({ publications: count, keptPerPublication, rssBytes }: PublicationMemory): readonly string[] => [
  "Memory of one agent",
  row("", "kept each", "RSS before", "RSS with"),
  row(`${count} publications`, kib(keptPerPublication), mib(rssBytes.without), mib(rssBytes.with)),
  "",
];

const longTable = ({ lines, claim, release }: LongMountTable): readonly string[] => {
  const line = (what: string, { short, long }: LongMountTable["claim"]): string =>
    row(what, short.p50, short.p99, long.p50, long.p99, `${number(long.p50 - short.p50)} ms`);
  return [
    "One at a time, plugin time in it, beside a short and a long mount table",
    row("milliseconds", `${lines.short} lines`, "p99", `${lines.long} lines`, "p99", "p50 adds"),
    line("claim", claim),
    line("release", release),
    "",
  ];
};

const scale = ({ small, large }: Scale): readonly string[] => [
  "A small installation and a large one, the same calls by turns",
  row("milliseconds", "p50", "p99", "p50", "p99", "p99 ratio"),
  row("", `${small.volumes}`, "volumes", `${large.volumes}`, "volumes", ""),
  ...scaleCalls.map((call) => {
    const [one, many] = [small.ms[call], large.ms[call]];
    return row(call === "claim" ? "claim and release" : call, one.p50, one.p99, many.p50, many.p99, many.p99 / one.p99);
  }),
  row("start", small.startMs, "", large.startMs, "", ""),
  row("Redis, each volume", kib(small.bytesPerVolume), "", kib(large.bytesPerVolume), "", ""),
  "",
];

const streams = ({ agents, claims, storm, rssPerStream, idleCpu, ended }: AgentStreams): readonly string[] => [
  `Streams of ${agents} agents, ${claims} claims held on each, 1 % of them changing in a minute`,
  row("", "s", "CPU s", "dialled again"),
  row("all dial at once, and register", storm.ms / 1_000, storm.cpuMs / 1_000, String(storm.dialledAgain)),
  row("all end at once", "", ended.cpuMs / 1_000),
  row("", "RSS each", "idle"),
  row("while nothing else happens", kib(rssPerStream), `${number(idleCpu * 100)} %`),
  "",
];

const besideTransfers = ({ alone, beside, transfers }: BesideTransfers): readonly string[] => [
  "Orders over one stream, one at a time, alone and beside four transfers of 16 MiB on its connection",
  row("milliseconds", "p50", "p99", "p50", "p99", "p99 ratio", "transfers"),
  row("order", alone.p50, alone.p99, beside.p50, beside.p99, beside.p99 / alone.p99, String(transfers)),
  "",
];

const verdictLine = ({ holds, kind, text }: Verdict): string =>
  `  ${holds ? "pass" : "FAIL"}  ${text}${!holds && kind === "ratio" ? " (fails the run with --strict)" : ""}`;

/** For people: tables first, what counts on any machine last. */
export const reportOf = (figures: Figures): string => {
  const { machine, volumeMemory, agentMemory } = figures;
  return [
    `Holdfast bench: Node ${machine.node}, ${machine.cores} cores, Redis ${machine.redis} with appendfsync always, no TLS unless told`,
    "",
    ...hotPathTables(figures),
    ...(figures.throughput === undefined ? [] : throughput(figures.throughput)),
    ...(figures.reactions === undefined ? [] : reactions(figures.reactions)),
    ...(figures.lanes === undefined ? [] : lanes(figures.lanes)),
    ...(figures.shared === undefined ? [] : sharedBy(figures.shared)),
    ...(volumeMemory === undefined && agentMemory === undefined ? [] : memory(volumeMemory ?? [], agentMemory)),
    ...(figures.agentStreams === undefined ? [] : streams(figures.agentStreams)),
    ...(figures.besideTransfers === undefined ? [] : besideTransfers(figures.besideTransfers)),
    ...(figures.publications === undefined ? [] : publications(figures.publications)),
    ...(figures.longMountTable === undefined ? [] : longTable(figures.longMountTable)),
    ...(figures.scale === undefined ? [] : scale(figures.scale)),
    "Verdicts",
    ...verdictsOf(figures).map(verdictLine),
    ...figures.failed.map((section) => `  FAIL  ${section}: ended with an error, see above`),
  ].join("\n");
};
