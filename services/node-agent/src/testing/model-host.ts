import type { MountLine } from "@holdfast/model/mountinfo";
import { expect } from "vitest";
import type { Leftover, MountView } from "../domain/mounts.ts";
import { isUnder } from "../domain/paths.ts";
import type { VolumeState } from "../domain/types.ts";
import type {
  CallResult,
  HostDirs,
  KillableChildren,
  MountMethod,
  MountOrder,
  MountTable,
  NodePlugin,
  NodePlugins,
} from "../ports.ts";
import { mountinfoView } from "../volumes/mountinfo-view.ts";

/** What becomes of one call: the answer, and whether the plugin did the work. */
export type Fate =
  | "done"
  | "refused"
  | "refused-after"
  | "blocked"
  /** Of an undo: answers OK, since its own files have nothing of it; the mount stays. */
  | "lied"
  | "lost-before"
  | "lost-after"
  | "crash-before"
  | "crash-after";

/** A kernel, a plugin and a disk of directories that outlive every life of the agent. */
export interface ModelHost {
  readonly calls: string[];
  /** Each look at the mount table. */
  readonly looks: ("own" | "everywhere")[];
  /** Fates of the calls to come; "done" when it has run out. */
  readonly fates: Fate[];
  readonly mounts: MountTable;
  readonly dirs: HostDirs;
  readonly plugins: NodePlugins;
  readonly children: KillableChildren;
  /** A process has something open below the path; without one nobody has. */
  setHolder(holder?: Leftover): void;
  /** What a plugin makes of the options that a mount is to have; and what mount(8) is asked for. */
  readonly mounting: ModelMounting;
  staged(): readonly string[];
  /** What the plugin has in its own files for a Stage or a Publish: its inverse is owed, a reboot or not. */
  owed(): readonly string[];
  mountedPaths(): readonly string[];
  /** Whoever serves the mounts at these paths is gone, or does not answer; nothing: all is well again. */
  setAiling(kind: "dead" | "hung", paths: readonly string[]): void;
  /** Somebody unmounts it, or its user-space daemon dies. */
  unmount(path: string): void;
  reboot(): void;
  /** The agent's memory is gone. */
  loseJournal(): void;
  /** What the plugin answers to the calls that change no mount. */
  readonly figures: ModelFigures;
  setPluginAway(away: boolean): void;
  setStages(stages: "yes" | "no"): void;
  /** A container's private copy of a mount. */
  addForeign(line: MountLine, pid: number): void;
  clearForeign(): void;
  addMount(path: string, device: string, root: string): void;
}

export interface ModelMounting {
  pluginOptions: readonly string[];
  fsType: string;
  readonly remounts: string[];
  remountsWork: boolean;
  /** Paths that a child looked at, and that one unmounted. */
  readonly looks: string[];
  readonly unmounts: string[];
  unmountsWork: boolean;
}

export interface ModelFigures {
  expand: (grown: { capacityBytes: bigint }) => Awaited<ReturnType<NodePlugin["expand"]>>;
  stats: (deadlineMs: number, signal: AbortSignal) => ReturnType<NodePlugin["stats"]>;
  health: (signal: AbortSignal) => ReturnType<NodePlugin["health"]>;
}

export interface ModelHostOptions {
  /** The journal as it is on disk: what the agent may act on. */
  readonly journalled: (volumeUid: string) => VolumeState | undefined;
  readonly onCrash: () => void;
}

const root: MountLine = {
  id: 1,
  parent: 0,
  device: "8:1",
  root: "/",
  path: "/",
  options: ["rw"],
  fsType: "ext4",
  source: "/dev/sda1",
  superOptions: "rw",
};

export function createModelHost({ journalled, onCrash }: ModelHostOptions): ModelHost {
  let lines: MountLine[] = [root];
  let foreign: { line: MountLine; pid: number; command: string }[] = [];
  let staged = new Map<string, string>();
  let published = new Map<string, string>();
  const owed = new Set<string>();
  let nextId = 2;
  let away = false;
  let stages: "yes" | "no" = "yes";
  /** Publications whose mount and whose record are both lost: nobody can know of them any more. */
  const excused = new Set<string>();
  let journalLost = false;
  const figures: ModelFigures = {
    expand: (value) => ({ kind: "done", value }),
    stats: async () => ({ kind: "done", value: { usage: [{ unit: "bytes", total: 10n, used: 4n, available: 6n }] } }),
    health: async () => undefined,
  };
  let holder: Leftover | undefined;
  const dead = new Set<string>();
  const hung = new Set<string>();
  const mounting: ModelMounting = {
    looks: [],
    unmounts: [],
    unmountsWork: true,
    pluginOptions: ["rw", "nosuid", "nodev"],
    remounts: [],
    remountsWork: true,
    fsType: "ext4",
  };
  const children: KillableChildren = {
    leftBehind: () => 0,
    async run(_volume, command, args) {
      const path = args.at(-1) ?? "";
      if (command === "stat") {
        mounting.looks.push(path);
        const said = dead.has(path) ? `stat: ${path}: Transport endpoint is not connected` : "";
        return hung.has(path) ? { kind: "hung" } : { kind: "ended", code: said === "" ? 0 : 1, said };
      }
      if (command === "umount") {
        mounting.unmounts.push(path);
        if (!mounting.unmountsWork) return { kind: "ended", code: 32, said: "busy" };
        dead.delete(path);
        unmount(path);
        return { kind: "ended", code: 0, said: "" };
      }
      const [options = "", ...places] = args.slice(args.indexOf("-o") + 1);
      mounting.remounts.push([command, options, ...places].join(" "));
      if (!mounting.remountsWork) return { kind: "ended", code: 32, said: "not permitted" };
      const wanted = options.split(",").slice(2);
      lines = lines.map((line) => (line.path === path ? { ...line, options: wanted } : line));
      return { kind: "ended", code: 0, said: "" };
    },
  };
  const calls: string[] = [];
  const looks: ModelHost["looks"] = [];
  const isMountPoint = (path: string): boolean => lines.some((line) => isUnder(line.path, path));
  const fates: Fate[] = [];

  const mount = (path: string, device: string, from: string): void => {
    if (lines.some((line) => line.path === path)) return;
    lines.push({
      ...root,
      id: nextId,
      parent: 1,
      path,
      device,
      root: from,
      options: mounting.pluginOptions,
      fsType: mounting.fsType,
    });
    nextId += 1;
  };
  const unmount = (path: string): void => {
    lines = lines.filter((line) => line.path !== path);
  };

  const work: Record<MountMethod, (volume: string, path: string) => void> = {
    NodeStageVolume: (volume, path) => {
      staged.set(volume, path);
      owed.add(path);
      mount(path, "9:1", `/${volume}`);
    },
    NodePublishVolume: (volume, path) => {
      published.set(path, volume);
      owed.add(path);
      excused.delete(path);
      mount(path, "9:1", `/${volume}`);
    },
    NodeUnpublishVolume: (_volume, path) => {
      published.delete(path);
      owed.delete(path);
      unmount(path);
    },
    NodeUnstageVolume: (volume, path) => {
      staged.delete(volume);
      owed.delete(path);
      unmount(path);
    },
  };

  const call = (method: MountMethod, volume: string, path: string): Promise<CallResult> => {
    const fate = fates.shift() ?? "done";
    calls.push(`${method} ${fate}`);
    const refusing = method.includes("Un") ? "blocked" : fate.replace("-after", "");
    if (["done", "lost-after", "crash-after", "refused-after"].includes(fate)) work[method](volume, path);
    if (fate === "lied") {
      published.delete(path);
      staged.delete(volume);
      owed.delete(path);
    }
    if (fate.startsWith("crash")) {
      onCrash();
      return new Promise(() => undefined);
    }
    if (fate === "done" || fate === "lied") return Promise.resolve({ kind: "done" });
    const lost = fate.startsWith("lost");
    const code = lost ? "DEADLINE_EXCEEDED" : refusing === "refused" ? "INVALID_ARGUMENT" : "FAILED_PRECONDITION";
    const advice = lost ? "again" : refusing === "refused" ? "fail" : "block";
    const failure = { method, code, message: "as the test wants it", sent: true, advice, needs: "" } as const;
    return Promise.resolve({ kind: lost ? "unknown" : "refused", failure });
  };

  const heldFor = (order: MountOrder) => {
    const state = journalled(order.ref.volumeUid);
    const claim = state?.claims[order.facts.claimUid];
    // [I3] what is mounted is mounted under the epoch that the journal holds.
    expect(claim?.facts.epoch).toEqual(order.facts.epoch);
    return { state, claim };
  };

  const plugin: NodePlugin = {
    name: "model",
    stages: () => stages,
    async stage(order) {
      const { state } = heldFor(order);
      expect(["staging", "unsure"]).toContain(state?.stage.phase); // [I4]
      return call("NodeStageVolume", order.ref.externalId, order.stagingPath);
    },
    async publish(order) {
      const { state, claim } = heldFor(order);
      // [I4] A repetition alone has a deadline of its own: what it may have to undo is owed already.
      expect(order.deadlineMs === undefined ? ["publishing", "unsure"] : ["published"]).toContain(claim?.phase);
      // CSI: NodePublish comes after a successful NodeStage, where the plugin stages.
      if (state?.stage.needed) expect(staged.has(order.ref.externalId)).toBe(true);
      return call("NodePublishVolume", order.ref.externalId, order.facts.target);
    },
    async unpublish(ref, target) {
      const claims = Object.values(journalled(ref.volumeUid)?.claims ?? {});
      expect(claims.find((claim) => claim.facts.target === target)?.phase).toBe("unpublishing"); // [I4]
      return call("NodeUnpublishVolume", ref.externalId, target);
    },
    async unstage(ref, path, _signal, cause) {
      const known = journalled(ref.volumeUid);
      expect(known?.stage.phase).toBe("unstaging"); // [I4]
      expect(Object.keys(known?.claims ?? {})).toContain(cause?.claim); // [I3]
      // CSI: NodeUnstage comes after every NodeUnpublish.
      const there = [...published].filter(([target, volume]) => volume === ref.externalId && !excused.has(target));
      expect(there).toEqual([]);
      return call("NodeUnstageVolume", ref.externalId, path);
    },
    async expand({ ref, capacity }, { target }) {
      calls.push(`NodeExpandVolume ${ref.externalId} ${target}`);
      expect(published.get(target)).toBe(ref.externalId);
      return figures.expand({ capacityBytes: capacity?.requiredBytes ?? 0n });
    },
    async stats({ ref, target }, deadlineMs, signal) {
      calls.push(`NodeGetVolumeStats ${ref.externalId}`);
      expect(published.get(target)).toBe(ref.externalId);
      return figures.stats(deadlineMs, signal);
    },
    async health({ ref, target, stagingPath }, _, signal) {
      calls.push(`NodeGetVolumeHealth ${ref.externalId} ${target || "-"} ${stagingPath || "-"}`);
      return figures.health(signal);
    },
  };

  const view = (everywhere: boolean): MountView => ({
    // As it is now, whatever is mounted later.
    ...mountinfoView([...lines]),
    foreign: (marks) =>
      everywhere
        ? foreign.filter(({ line }) => marks.some((it) => it.device === line.device && it.root === line.root))
        : [],
  });

  return {
    calls,
    looks,
    fates,
    figures,
    children,
    setHolder(next) {
      holder = next;
    },
    mounting,
    setAiling(kind, paths) {
      const set = kind === "dead" ? dead : hung;
      set.clear();
      for (const path of paths) set.add(path);
    },
    mounts: {
      scope: "host",
      findHolder: async (path) => (holder !== undefined && isUnder(holder.path, path) ? holder : undefined),
      async look(everywhere) {
        looks.push(everywhere ? "everywhere" : "own");
        return view(everywhere);
      },
    },
    dirs: {
      // Nothing of ours looks at what a volume covers.
      makeStaging: async (path) => expect(lines.some((line) => line.path === path)).toBe(false),
      makeParent: async () => undefined,
      makeTarget: async () => undefined,
      deviceReadOnly: async () => undefined,
      vacate: async (path) => !isMountPoint(path),
      removeTarget: async (path) => expect(lines.some((line) => line.path === path)).toBe(false),
      removeDirectory: async (path) => expect(lines.some((line) => line.path === path)).toBe(false),
      deviceNumber: async () => undefined,
      deviceBytes: async () => undefined,
    },
    plugins: { get: (name) => (away || name !== "model" ? undefined : plugin) },
    staged: () => [...staged.keys()],
    owed: () => [...owed],
    mountedPaths: () => lines.filter((line) => line.id !== 1 && line.device === "9:1").map((line) => line.path),
    unmount(path) {
      unmount(path);
      if (journalLost) excused.add(path);
    },
    loseJournal() {
      journalLost = true;
      owed.clear();
      for (const target of published.keys()) if (!lines.some((line) => line.path === target)) excused.add(target);
    },
    reboot() {
      lines = [root];
      foreign = [];
      staged = new Map();
      published = new Map();
    },
    setPluginAway(next) {
      away = next;
    },
    setStages(next) {
      stages = next;
    },
    addForeign: (line, pid) => void foreign.push({ line, pid, command: "sleep" }),
    clearForeign() {
      foreign = [];
    },
    addMount: mount,
  };
}
