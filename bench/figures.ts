import type { AgentStreams } from "./agents.ts";
import type { BesideTransfers } from "./beside-transfers.ts";
import type { LongMountTable, PublicationMemory } from "./host-measures.ts";
import type { HotPath, Verb } from "./hot-path.ts";
import type { Lanes } from "./lanes.ts";
import type { AgentMemory, VolumeMemory } from "./memory.ts";
import type { Reactions } from "./reactions.ts";
import type { Scale } from "./scale.ts";
import type { Shared } from "./shared-controllers.ts";
import type { Throughput } from "./throughput.ts";

type PerVerb<T> = Readonly<Record<Verb, T>>;

/** Everything a run found out; a section that was not asked for is absent. `--json` prints just this. */
export interface Figures {
  readonly machine: {
    readonly cores: number;
    readonly node: string;
    readonly redis: string;
  };
  /** Sections that ended with an error; it stands on standard error. */
  readonly failed: readonly string[];
  readonly hotPath?: PerVerb<HotPath>;
  readonly tracedHotPath?: PerVerb<HotPath>;
  /** The same beside a floor whose plugin does nothing. */
  readonly besideStillPlugin?: PerVerb<HotPath>;
  /** As `tracedHotPath`, every TCP connection of both sides by TLS. */
  readonly tlsHotPath?: PerVerb<HotPath>;
  readonly throughput?: readonly { readonly floor: PerVerb<Throughput>; readonly product: PerVerb<Throughput> }[];
  readonly reactions?: Reactions;
  readonly lanes?: Lanes;
  readonly shared?: readonly Shared[];
  readonly volumeMemory?: readonly VolumeMemory[];
  readonly agentMemory?: AgentMemory;
  readonly agentStreams?: AgentStreams;
  readonly besideTransfers?: BesideTransfers;
  readonly publications?: PublicationMemory;
  readonly longMountTable?: LongMountTable;
  readonly scale?: Scale;
}
