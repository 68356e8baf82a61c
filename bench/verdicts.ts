import type { AgentStreams } from "./agents.ts";
import type { BesideTransfers } from "./beside-transfers.ts";
import type { Figures } from "./figures.ts";
import type { HotPath } from "./hot-path.ts";
import type { Lanes } from "./lanes.ts";
import { type Scale, scaleCalls } from "./scale.ts";
import { apartOf, type Shared } from "./shared-controllers.ts";

/** A statement that holds on any machine: counts and ratios, never milliseconds. */
export interface Verdict {
  readonly holds: boolean;
  readonly text: string;
  /** Counts do not depend on how busy the machine is: a run that breaks one fails. A ratio fails it with --strict only. */
  readonly kind: "count" | "ratio";
}

/** As `floorHash` has it. A change of bench/floor needs an ADR with the ratios against both. */
export const frozenFloor = "08a7e9dd7ab57968695cb93d844723aba267f6b3a82c099d6ccd1de4c37622e0";

/** Work that the clock starts (probes, checks of the store) may fall into a run; a call more on the path is a whole one. */
const stray = 0.1;
const mostOverhead = 1.5;
const mostOverheadByTls = 1.35;
/** What counts as the same, of two runs on one machine. */
const unchanged = 1.25;
/** Of a small installation, whatever the size. */
const flat = 1.3;
const mostBytes = Math.floor(2.2 * 1024);
const mostStartMs = 3_000;
const mostIdleCpu = 0.05;
const mostStreamBytes = 100 * 1024;
const mostBesideTransfers = 2;
/** Of the CPU that a claim takes of all controllers together, however many they are. */
const mostSharedCpu = 1.15;
/** How far the share of a controller may be from that of its fellows. */
const mostUneven = 0.4;
const wanted = { commits: 3, syncs: 3, calls: 3 } as const;

const two = (value: number): string => value.toFixed(2);

const countsOf = (verb: string, { commits, journalSyncs, product }: HotPath): readonly Verdict[] => [
  {
    kind: "count",
    holds: Math.abs(commits - wanted.commits) <= stray,
    text: `${wanted.commits} store commits per ${verb}: ${two(commits)}`,
  },
  {
    kind: "count",
    holds: journalSyncs !== undefined && journalSyncs <= wanted.syncs + stray,
    text: `at most ${wanted.syncs} journal syncs per ${verb}: ${journalSyncs === undefined ? "not counted by the agent" : two(journalSyncs)}`,
  },
  {
    kind: "count",
    holds: Math.abs(product.pluginCalls - wanted.calls) <= stray,
    text: `${wanted.calls} plugin calls per ${verb}: ${two(product.pluginCalls)}`,
  },
];

const ratioOf = (verb: string, { ratio }: HotPath): Verdict => ({
  kind: "ratio",
  holds: ratio <= mostOverhead,
  text: `overhead of a ${verb}, everything on, at most ${mostOverhead} x the floor of the same run: ${two(ratio)} x`,
});

const tlsRatioOf = (verb: string, { ratio }: HotPath): Verdict => ({
  kind: "ratio",
  holds: ratio <= mostOverheadByTls,
  text: `overhead of a ${verb} by TLS, everything on, at most ${mostOverheadByTls} x the floor by TLS of the same run: ${two(ratio)} x`,
});

const besideOf = ({ attaches: { count, seconds, leastSeconds }, beside }: Lanes): readonly Verdict[] => [
  {
    kind: "ratio",
    holds: seconds <= mostOverhead * leastSeconds,
    text: `${count} attaches of 1 s at most ${mostOverhead} x the ${leastSeconds} s that they take at least: ${two(seconds / leastSeconds)} x`,
  },
  {
    kind: "ratio",
    holds: beside.ratio <= unchanged,
    text: `claims' p99 beside a volume whose attach takes 10 s at most ${unchanged} x that without: ${two(beside.ratio)} x`,
  },
];

const flatnessOf = ({ small, large }: Scale): readonly Verdict[] => [
  {
    kind: "count",
    holds: large.bytesPerVolume <= mostBytes,
    text: `at most ${mostBytes} bytes of Redis for a claimed volume: ${Math.round(large.bytesPerVolume)}`,
  },
  {
    kind: "ratio",
    holds: large.startMs <= mostStartMs,
    text: `${large.volumes} volumes and ${large.nodes} nodes taken up within ${mostStartMs} ms: ${Math.round(large.startMs)}`,
  },
  ...scaleCalls.map((call): Verdict => {
    const ratio = large.ms[call].p99 / small.ms[call].p99;
    const text = `p99 of a ${call} among ${large.volumes} volumes at most ${flat} x that among ${small.volumes}: ${two(ratio)} x`;
    return { kind: "ratio", holds: ratio <= flat, text };
  }),
];

const streamsOf = ({ agents, idleCpu, rssPerStream }: AgentStreams): readonly Verdict[] => [
  {
    kind: "ratio",
    holds: idleCpu <= mostIdleCpu,
    text: `${agents} idle streams take at most ${mostIdleCpu * 100} % of a core: ${two(idleCpu * 100)} %`,
  },
  {
    kind: "ratio",
    holds: rssPerStream <= mostStreamBytes,
    text: `at most ${mostStreamBytes / 1024} KiB of RSS a stream: ${Math.round(rssPerStream / 1024)}`,
  },
];

const besideTransfersOf = ({ alone, beside }: BesideTransfers): Verdict => ({
  kind: "ratio",
  holds: beside.p99 <= mostBesideTransfers * alone.p99,
  text: `p99 of an order beside four transfers of 16 MiB at most ${mostBesideTransfers} x that without: ${two(beside.p99 / alone.p99)} x`,
});

const sharedOf = (all: readonly Shared[]): readonly Verdict[] =>
  all.flatMap(({ asked, shares, cpuMs }): readonly Verdict[] => {
    const [count, apart] = [shares.length, apartOf(all, shares.length)];
    if (count === 1 || asked === "apart" || apart === undefined) return [];
    const who = `${count} controllers, ${asked === "all" ? "all asked" : "one asked"}`;
    const even: Verdict = {
      kind: "ratio",
      holds: shares.every((share) => Math.abs(share * count - 1) <= mostUneven),
      text: `${who}: each makes ${1 - mostUneven} to ${1 + mostUneven} of its share of the calls: ${shares.map((share) => two(share * count)).join(", ")}`,
    };
    // Where one is asked for all, most claims are told from one controller to another through the store: told, and not judged.
    if (asked === "first") return [even];
    const cheap: Verdict = {
      kind: "ratio",
      holds: cpuMs <= mostSharedCpu * apart.cpuMs,
      text: `${who}: CPU for a claim and its release at most ${mostSharedCpu} x that of a controller which shares nothing: ${two(cpuMs / apart.cpuMs)} x`,
    };
    return [even, cheap];
  });

/** Counts are of the path with nothing beside it; the ratio is of both sides with everything on. */
export const verdictsOf = ({
  hotPath,
  tracedHotPath,
  tlsHotPath,
  lanes,
  scale,
  agentStreams,
  besideTransfers,
  shared,
}: Omit<Partial<Figures>, "failed" | "machine">): readonly Verdict[] => [
  ...(hotPath === undefined ? [] : [...countsOf("claim", hotPath.claim), ...countsOf("release", hotPath.release)]),
  ...(tracedHotPath === undefined
    ? []
    : [ratioOf("claim", tracedHotPath.claim), ratioOf("release", tracedHotPath.release)]),
  ...(tlsHotPath === undefined
    ? []
    : [tlsRatioOf("claim", tlsHotPath.claim), tlsRatioOf("release", tlsHotPath.release)]),
  ...(lanes === undefined ? [] : besideOf(lanes)),
  ...(scale === undefined ? [] : flatnessOf(scale)),
  ...(agentStreams === undefined ? [] : streamsOf(agentStreams)),
  ...(besideTransfers === undefined ? [] : [besideTransfersOf(besideTransfers)]),
  ...(shared === undefined ? [] : sharedOf(shared)),
];

export const fails = (verdicts: readonly Verdict[], strict: boolean): boolean =>
  verdicts.some(({ holds, kind }) => !holds && (strict || kind === "count"));
