import { createHash } from "node:crypto";
import { systemClock } from "@holdfast/shared/async/clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { onTestFinished } from "vitest";
import { defaultAllowedOptions, defaultForcedOptions } from "../domain/mount-options.ts";
import { createHostPaths } from "../domain/paths.ts";
import type { VolumeState } from "../domain/types.ts";
import { noFailpoints } from "../failpoints.ts";
import type { Ledger, PermitOrder, ReleaseOrder, TokenSource } from "../ports.ts";
import { createLedger, foldRecords } from "../volumes/ledger.ts";
import { createLingeringMounts } from "../volumes/lingering-mounts.ts";
import { createMountWatch, type MountWatch } from "../volumes/mount-watch.ts";
import { recoverVolumes } from "../volumes/recovery.ts";
import { createSecureMount } from "../volumes/secure-mount.ts";
import { createVolumeManager, type VolumeManager } from "../volumes/volume-manager.ts";
import { createJournalDisk, type JournalDisk, losePower, openMemoryJournal } from "./memory-journal.ts";
import { createModelHost, type ModelHost } from "./model-host.ts";

export const modelHash = (text: string) => createHash("sha256").update(text).digest("hex");
export const modelPaths = createHostPaths("/hf", modelHash);
export const volumeRef = {
  namespace: "ns",
  volume: "vol",
  volumeUid: "uid-1",
  externalId: "ext-1",
  plugin: "model",
} as const;

/** The real ledger, recovery and volume manager over a model of kernel, plugin and disk. */
export interface ModelAgent {
  readonly host: ModelHost;
  volumes(): VolumeManager;
  watch(): MountWatch;
  ledger(): Ledger;
  disk(): JournalDisk;
  /** Resolves when the process of this life is gone. */
  crashed(): Promise<"crashed">;
  crash(): void;
  /** A new life: reads what is on disk. */
  start(options?: {
    readonly rebooted?: boolean;
    /** Rebooted, and what was written last never reached the disk. */
    readonly lostPower?: boolean;
    readonly lostJournal?: boolean;
  }): Promise<void>;
  setQuarantined(quarantined: boolean): void;
}

const noTokens: Pick<TokenSource, "tokens"> = { tokens: () => Promise.reject(new Error("it has no tokens")) };

export function createModelAgent(
  deadMounts: "restage" | "report" = "restage",
  tokens: Pick<TokenSource, "tokens"> = noTokens,
): ModelAgent {
  let disk = createJournalDisk("journal-1");
  let lives = 0;
  let boot = 1;
  let quarantined = false;
  let journal = openMemoryJournal(disk);
  let ledger = createLedger(journal);
  let volumes: VolumeManager | undefined;
  let watch: MountWatch | undefined;
  let end: (value: "crashed") => void = () => undefined;
  let crashed = new Promise<"crashed">(() => undefined);

  const journalled = (volumeUid: string): VolumeState | undefined => foldRecords(disk.records).volumes.get(volumeUid);
  const crash = (): void => {
    journal.crash();
    end("crashed");
  };
  const host = createModelHost({ journalled, onCrash: crash });

  return {
    host,
    crash,
    crashed: () => crashed,
    ledger: () => ledger,
    disk: () => disk,
    volumes() {
      if (volumes === undefined) throw new Error("start() was not called");
      return volumes;
    },
    watch() {
      if (watch === undefined) throw new Error("start() was not called");
      return watch;
    },
    setQuarantined(next) {
      quarantined = next;
    },
    async start({ lostPower = false, rebooted = lostPower, lostJournal = false } = {}) {
      lives += 1;
      const nodeEpoch = Math.max(1, ledger.agent().nodeEpoch + (lostJournal ? 1 : 0));
      if (rebooted) {
        boot += 1;
        host.reboot();
      }
      if (lostPower) losePower(disk);
      if (lostJournal) host.loseJournal();
      if (lostJournal) disk = createJournalDisk(`journal-${lives}`);
      journal = openMemoryJournal(disk);
      ledger = createLedger(journal);
      crashed = new Promise((resolve) => {
        end = resolve;
      });
      const { orphans } = await recoverVolumes({
        ledger,
        mounts: host.mounts,
        paths: modelPaths,
        bootId: `boot-${boot}`,
      });
      if (ledger.agent().nodeEpoch !== nodeEpoch) {
        await ledger.commitAgent({ type: "node-epoch", nodeEpoch, clusterUid: "cluster" });
      }
      watch = createMountWatch({
        ledger,
        mounts: host.mounts,
        rootDir: "/hf",
        children: host.children,
        lose: (ref, dead) => made.lose(ref, dead),
        policy: deadMounts,
        clock: systemClock,
        log: createMemoryLogger(),
        signal: new AbortController().signal,
      });
      const made = createVolumeManager({
        node: "n1",
        ledger,
        plugins: host.plugins,
        mounts: host.mounts,
        dirs: host.dirs,
        paths: modelPaths,
        hash: modelHash,
        failpoint: noFailpoints,
        log: createMemoryLogger(),
        quarantined: () => quarantined,
        secure: createSecureMount({ ...host, forced: defaultForcedOptions }),
        allowedOptions: defaultAllowedOptions,
        orphansAtStart: orphans.length > 0,
        deadMounts: watch,
        lingering: createLingeringMounts({ ...host, log: createMemoryLogger() }),
        tokens,
        signal: new AbortController().signal,
      });
      volumes = made;
    },
  };
}

/** An agent that runs, for a test of one thing. */
export async function startModelAgent(
  deadMounts?: "restage" | "report",
  tokens?: Pick<TokenSource, "tokens">,
): Promise<ModelAgent> {
  const agent = createModelAgent(deadMounts, tokens);
  await agent.start();
  onTestFinished(() => agent.crash());
  return agent;
}

export function permitOrder(
  claimUid: string,
  ctr: number,
  changes: Partial<PermitOrder["claim"]> & { readonly context?: Record<string, string> } = {},
): PermitOrder {
  const { context = {}, ...claim } = changes;
  const epoch = { gen: 1, ctr };
  return {
    ref: volumeRef,
    claim: {
      claimUid,
      workload: `w-${claimUid}`,
      alias: "data",
      nodeEpoch: 1,
      epoch,
      oldestLiveEpoch: epoch,
      accessMode: "MULTI_NODE_MULTI_WRITER",
      attachmentMode: "FILE_SYSTEM",
      readOnly: false,
      fsType: "",
      ...claim,
    },
    contents: {
      mountFlags: [],
      volumeMountGroup: "",
      volumeContext: {},
      publishContext: context,
      stageSecrets: { key: "canary-stage" },
      publishSecrets: { key: "canary-publish" },
      attempt: 1,
    },
  };
}

export function releaseOrder(claimUid: string, ctr: number, nodeEpoch = 1): ReleaseOrder {
  return { ref: volumeRef, claimUid, nodeEpoch, epoch: { gen: 1, ctr } };
}

export const anyCaller = new AbortController().signal;
