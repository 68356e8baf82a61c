/** What a CO might do next, given what is there: each with the call, the answer that is right, and what the answer makes true. */

import type { Code } from "./call-outcome.ts";
import type { CsiClients } from "./csi-clients.ts";
import type { DriverProcess } from "./driver-process.ts";
import { writeContents } from "./model-contents.ts";
import {
  copyable,
  type ModelSnapshot,
  type ModelVolume,
  type ModelWorld,
  slotBytes,
  writableTargets,
} from "./model-world.ts";
import type { SeededRandom } from "./seeded-random.ts";
import { capabilityOf, kindFacts, type VolumeKind } from "./volume-kinds.ts";

export interface Operation {
  readonly kind: string;
  readonly what: string;
  /** The only right answers. */
  readonly right: readonly Code[];
  /** Undefined: nothing of the driver's, so nothing to interrupt. */
  readonly interruptible: boolean;
  /** `said` is the answer as text: a repeat must say the same. */
  call(csi: CsiClients): Promise<{ readonly said: string; readonly settle: () => void }>;
}

interface Parts {
  readonly world: ModelWorld;
  readonly random: SeededRandom;
  readonly driver: Pick<DriverProcess, "stagingPath" | "targetPath">;
}

/** Undefined: there is nothing it could be done to. */
type Make = (parts: Parts) => Operation | undefined | Promise<Operation | undefined>;

const mostVolumes = 8;
const mostSnapshots = 6;
const mib = 1n << 20n;

const operation = <T>(
  kind: string,
  what: string,
  call: (csi: CsiClients) => Promise<T>,
  settle: (answer: T) => void,
  said: (answer: T) => string = () => "",
): Operation => ({
  kind,
  what: `${kind} ${what}`,
  right: ["OK"],
  interruptible: true,
  call: async (csi) => {
    const answer = await call(csi);
    return { said: said(answer), settle: () => settle(answer) };
  },
});

const refusal = (kind: string, what: string, code: Code, call: (csi: CsiClients) => Promise<unknown>): Operation => ({
  ...operation(kind, what, call, () => {}),
  right: [code],
});

const must = <T>(value: T | undefined, what: string): T => {
  if (value === undefined) throw new Error(`the answer has no ${what}`);
  return value;
};

const volumesWhere = ({ world }: Parts, test: (volume: ModelVolume) => boolean): readonly ModelVolume[] =>
  [...world.volumes.values()].filter(test);

const onVolume =
  (test: (volume: ModelVolume) => boolean, make: (volume: ModelVolume, parts: Parts) => ReturnType<Make>): Make =>
  (parts) => {
    const fitting = volumesWhere(parts, test);
    return fitting.length === 0 ? undefined : make(parts.random.pick(fitting), parts);
  };

const nameOf = (parts: Parts, prefix: string): string => {
  parts.world.counter += 1;
  return `${prefix}-${parts.world.counter}`;
};

const createFrom = (
  parts: Parts,
  kind: VolumeKind,
  what: string,
  from: Pick<ModelVolume, "bytes" | "contents"> | undefined,
  source:
    | { readonly snapshot: { readonly snapshotId: string } }
    | { readonly volume: { readonly volumeId: string } }
    | undefined,
): Operation => {
  const { world, random } = parts;
  const name = nameOf(parts, kind);
  const more = BigInt(random.integer(4)) * 4n * mib;
  const bytes = (from?.bytes ?? kindFacts[kind].bytes) + (kind === "xfs" && from !== undefined ? 0n : more);
  const mountOptions = kindFacts[kind].fsType !== "" && random.chance(0.3) ? "noatime" : "";
  return operation(
    what,
    `${name} of ${bytes} bytes`,
    (csi) =>
      csi.controller.createVolume({
        name,
        capacityRange: { requiredBytes: bytes },
        volumeCapabilities: [capabilityOf(kind)],
        parameters: kindFacts[kind].parameters,
        mutableParameters: mountOptions === "" ? {} : { mountOptions },
        ...(source === undefined ? {} : { volumeContentSource: source }),
      }),
    ({ volume }) => {
      const { volumeId, capacityBytes } = must(volume, "volume");
      if (capacityBytes !== bytes) throw new Error(`${name} has ${capacityBytes} bytes, ${bytes} were asked for`);
      world.volumes.set(volumeId, {
        id: volumeId,
        name,
        kind,
        bytes,
        contents: from?.contents ?? new Map(),
        mountOptions,
        attached: false,
        staging: undefined,
        stagedOptions: "",
        growing: false,
        targets: new Map(),
      });
    },
    ({ volume }) => `${volume?.volumeId} of ${volume?.capacityBytes} bytes`,
  );
};

const create: Make = (parts) => {
  if (parts.world.volumes.size >= mostVolumes) return undefined;
  const kind = parts.random.pick<VolumeKind>([
    "directory",
    "directory",
    "ext4",
    "ext4",
    "ext4",
    "xfs",
    "block",
    "block",
  ]);
  return createFrom(parts, kind, "create", undefined, undefined);
};

const restore: Make = (parts) => {
  const snapshots = [...parts.world.snapshots.values()];
  if (snapshots.length === 0 || parts.world.volumes.size >= mostVolumes) return undefined;
  const snapshot = parts.random.pick(snapshots);
  return createFrom(parts, snapshot.kind, "restore", snapshot, { snapshot: { snapshotId: snapshot.id } });
};

const clone: Make = onVolume(copyable, (volume, parts) =>
  parts.world.volumes.size >= mostVolumes
    ? undefined
    : createFrom(parts, volume.kind, "clone", { ...volume }, { volume: { volumeId: volume.id } }),
);

const isIdle = ({ staging, targets }: ModelVolume): boolean => staging === undefined && targets.size === 0;
const isFree = (volume: ModelVolume): boolean => isIdle(volume) && !volume.attached;

const remove: Make = onVolume(isFree, ({ id, name }, { world }) =>
  operation(
    "delete",
    name,
    (csi) => csi.controller.deleteVolume({ volumeId: id }),
    () => world.volumes.delete(id),
  ),
);

const isMounted = ({ kind, staging }: ModelVolume): boolean =>
  staging !== undefined && kindFacts[kind].access === "mount";

const removeMounted: Make = onVolume(isMounted, ({ id, name }) =>
  refusal("delete mounted", name, "FAILED_PRECONDITION", (csi) => csi.controller.deleteVolume({ volumeId: id })),
);

const attach: Make = onVolume(
  ({ attached }) => !attached,
  (volume, { world }) =>
    world.attaching
      ? operation(
          "attach",
          volume.name,
          (csi) =>
            csi.controller.controllerPublishVolume({
              volumeId: volume.id,
              nodeId: "node-a",
              volumeCapability: capabilityOf(volume.kind),
            }),
          () => {
            volume.attached = true;
          },
        )
      : undefined,
);

const detach: Make = onVolume(
  (volume) => volume.attached && isIdle(volume),
  (volume) =>
    operation(
      "detach",
      volume.name,
      (csi) => csi.controller.controllerUnpublishVolume({ volumeId: volume.id, nodeId: "node-a" }),
      () => {
        volume.attached = false;
      },
    ),
);

const removeAttached: Make = onVolume(
  ({ attached }) => attached,
  ({ id, name }) =>
    refusal("delete attached", name, "FAILED_PRECONDITION", (csi) => csi.controller.deleteVolume({ volumeId: id })),
);

const stage: Make = onVolume(isIdle, async (volume, { driver, world }) => {
  if (world.attaching && !volume.attached) return undefined;
  const stagingTargetPath = await driver.stagingPath(volume.name);
  const request = { volumeId: volume.id, stagingTargetPath, volumeCapability: capabilityOf(volume.kind) };
  return operation(
    "stage",
    volume.name,
    (csi) => csi.node.nodeStageVolume(request),
    () => {
      volume.staging = stagingTargetPath;
      volume.stagedOptions = volume.mountOptions;
      volume.growing = false;
    },
  );
});

const unstage: Make = onVolume(
  ({ staging, targets }) => staging !== undefined && targets.size === 0,
  (volume) =>
    operation(
      "unstage",
      volume.name,
      (csi) => csi.node.nodeUnstageVolume({ volumeId: volume.id, stagingTargetPath: volume.staging ?? "" }),
      () => {
        volume.staging = undefined;
        volume.growing = false;
      },
    ),
);

const isPublished = ({ targets }: ModelVolume): boolean => targets.size > 0;

const unstagePublished: Make = onVolume(isPublished, ({ id, name, staging = "" }) =>
  refusal("unstage published", name, "FAILED_PRECONDITION", (csi) =>
    csi.node.nodeUnstageVolume({ volumeId: id, stagingTargetPath: staging }),
  ),
);

const publish: Make = onVolume(
  ({ staging, targets }) => staging !== undefined && targets.size < 3,
  async (volume, parts) => {
    const targetPath = await parts.driver.targetPath(nameOf(parts, `${volume.name}-target`));
    const readonly = parts.random.chance(0.3);
    return operation(
      "publish",
      `${volume.name} at ${targetPath}${readonly ? " for reading" : ""}`,
      (csi) =>
        csi.node.nodePublishVolume({
          volumeId: volume.id,
          stagingTargetPath: volume.staging ?? "",
          targetPath,
          volumeCapability: capabilityOf(volume.kind),
          readonly,
        }),
      () => volume.targets.set(targetPath, readonly),
    );
  },
);

const unpublish: Make = onVolume(isPublished, (volume, { random }) => {
  const targetPath = random.pick([...volume.targets.keys()]);
  return operation(
    "unpublish",
    `${volume.name} at ${targetPath}`,
    (csi) => csi.node.nodeUnpublishVolume({ volumeId: volume.id, targetPath }),
    () => volume.targets.delete(targetPath),
  );
});

const write: Make = onVolume(
  (volume) => writableTargets(volume).length > 0,
  (volume, { random }) => {
    const target = random.pick(writableTargets(volume));
    const isFile = kindFacts[volume.kind].access === "mount";
    const slots = Number(volume.growing ? kindFacts.block.bytes : volume.bytes) / slotBytes;
    const key = isFile ? `file-${random.integer(6)}` : String(random.integer(slots));
    const gone = isFile && volume.contents.has(key) && random.chance(0.2);
    const what = { seed: random.integer(2 ** 31), length: isFile ? random.integer(300_000) : slotBytes };
    return {
      ...operation(
        "write",
        `${key} of ${volume.name}`,
        () => writeContents(volume, target, key, gone ? undefined : what),
        () => {
          const contents = new Map(volume.contents);
          if (gone) contents.delete(key);
          else contents.set(key, what);
          volume.contents = contents;
        },
      ),
      interruptible: false,
    };
  },
);

const expand: Make = onVolume(
  ({ kind, bytes }) => bytes < 2n * kindFacts[kind].bytes,
  (volume, { random }) => {
    const requiredBytes = volume.bytes + BigInt(1 + random.integer(4)) * 4n * mib;
    return operation(
      "expand",
      `${volume.name} to ${requiredBytes} bytes`,
      (csi) =>
        csi.controller.controllerExpandVolume({
          volumeId: volume.id,
          capacityRange: { requiredBytes },
          volumeCapability: capabilityOf(volume.kind),
        }),
      ({ capacityBytes, nodeExpansionRequired }) => {
        if (capacityBytes !== requiredBytes) throw new Error(`${volume.name} was expanded to ${capacityBytes} bytes`);
        const inUse = volume.staging !== undefined && volume.kind !== "directory";
        if (inUse && !nodeExpansionRequired) throw new Error(`${volume.name} is in use and needs no NodeExpandVolume`);
        volume.bytes = requiredBytes;
        volume.growing = inUse;
      },
      ({ capacityBytes, nodeExpansionRequired }) => `${capacityBytes} bytes, then the node: ${nodeExpansionRequired}`,
    );
  },
);

/** The kernel may not let an ext4 grow while it is mounted: a refusal that says to stage it anew, and the next stage grows it. */
const expandOnNode: Make = onVolume(
  ({ growing }) => growing,
  (volume) => ({
    ...operation(
      "expand on the node",
      volume.name,
      (csi) =>
        csi.node.nodeExpandVolume({
          volumeId: volume.id,
          volumePath: volume.staging ?? "",
          stagingTargetPath: volume.staging ?? "",
          capacityRange: { requiredBytes: volume.bytes },
          volumeCapability: capabilityOf(volume.kind),
        }),
      () => {
        volume.growing = false;
      },
    ),
    right: volume.kind === "ext4" ? ["OK", "FAILED_PRECONDITION"] : ["OK"],
  }),
);

const modify: Make = onVolume(
  ({ kind }) => kind !== "block",
  (volume, { random }) => {
    const label = `l${random.integer(1000)}`;
    const mountOptions = volume.kind === "directory" ? "" : random.pick(["noatime", "nodiratime", "noatime,noexec"]);
    return operation(
      "modify",
      `${volume.name} to ${label} ${mountOptions}`,
      (csi) =>
        csi.controller.controllerModifyVolume({
          volumeId: volume.id,
          mutableParameters: { "label.round": label, ...(mountOptions === "" ? {} : { mountOptions }) },
        }),
      () => {
        volume.mountOptions = mountOptions;
      },
    );
  },
);

const snapshotOf = (volume: ModelVolume, id: string, name: string, groupId: string): ModelSnapshot => ({
  id,
  name,
  volumeId: volume.id,
  kind: volume.kind,
  bytes: volume.bytes,
  contents: volume.contents,
  groupId,
});

const snapshot: Make = onVolume(copyable, (volume, parts) => {
  const { world } = parts;
  if (world.snapshots.size >= mostSnapshots) return undefined;
  const name = nameOf(parts, "snapshot");
  return operation(
    "snapshot",
    `${name} of ${volume.name}`,
    (csi) => csi.controller.createSnapshot({ sourceVolumeId: volume.id, name }),
    ({ snapshot: answer }) => {
      const { snapshotId, readyToUse, sizeBytes } = must(answer, "snapshot");
      if (!readyToUse || sizeBytes !== volume.bytes) throw new Error(`${name} of ${sizeBytes} bytes: ${readyToUse}`);
      world.snapshots.set(snapshotId, snapshotOf(volume, snapshotId, name, ""));
    },
    ({ snapshot: answer }) => `${answer?.snapshotId} at ${answer?.creationTime?.toISOString()}`,
  );
});

const snapshotWritten: Make = onVolume(
  (volume) => volume.kind === "directory" && !copyable(volume),
  (volume, parts) => {
    const name = nameOf(parts, "snapshot");
    return refusal("snapshot written", volume.name, "FAILED_PRECONDITION", (csi) =>
      csi.controller.createSnapshot({ sourceVolumeId: volume.id, name }),
    );
  },
);

const removeSnapshot: Make = ({ world, random }) => {
  const alone = [...world.snapshots.values()].filter(({ groupId }) => groupId === "");
  if (alone.length === 0) return undefined;
  const { id, name } = random.pick(alone);
  return operation(
    "delete snapshot",
    name,
    (csi) => csi.controller.deleteSnapshot({ snapshotId: id }),
    () => world.snapshots.delete(id),
  );
};

const group: Make = (parts) => {
  const { world, random } = parts;
  const members = random.some(volumesWhere(parts, copyable), 2 + random.integer(2));
  if (members.length < 2 || world.groups.size >= 2) return undefined;
  const name = nameOf(parts, "group");
  return operation(
    "group",
    `${name} of ${members.map((member) => member.name).join(", ")}`,
    (csi) => csi.group.createVolumeGroupSnapshot({ name, sourceVolumeIds: members.map(({ id }) => id) }),
    ({ groupSnapshot }) => {
      const { groupSnapshotId: id, snapshots } = must(groupSnapshot, "group");
      if (snapshots.length !== members.length) throw new Error(`${name} has ${snapshots.length} snapshots`);
      for (const { snapshotId, sourceVolumeId } of snapshots) {
        const member = must(world.volumes.get(sourceVolumeId), `member ${sourceVolumeId}`);
        world.snapshots.set(snapshotId, snapshotOf(member, snapshotId, name, id));
      }
      world.groups.set(id, { id, name, snapshotIds: snapshots.map(({ snapshotId }) => snapshotId) });
    },
    ({ groupSnapshot }) =>
      `${groupSnapshot?.groupSnapshotId}: ${groupSnapshot?.snapshots.map(({ snapshotId }) => snapshotId).toSorted()}`,
  );
};

const removeGroup: Make = ({ world, random }) => {
  if (world.groups.size === 0) return undefined;
  const { id, name, snapshotIds } = random.pick([...world.groups.values()]);
  return operation(
    "delete group",
    name,
    (csi) => csi.group.deleteVolumeGroupSnapshot({ groupSnapshotId: id, snapshotIds: [...snapshotIds] }),
    () => {
      world.groups.delete(id);
      for (const each of snapshotIds) world.snapshots.delete(each);
    },
  );
};

/** How often each is drawn, of what can be drawn at all. */
const weights: readonly (readonly [number, Make])[] = [
  [5, create],
  [2, restore],
  [2, clone],
  [2, remove],
  [1, removeMounted],
  [6, attach],
  [1, detach],
  [1, removeAttached],
  [6, stage],
  [3, unstage],
  [1, unstagePublished],
  [7, publish],
  [4, unpublish],
  [9, write],
  [2, expand],
  [3, expandOnNode],
  [1, modify],
  [3, snapshot],
  [1, snapshotWritten],
  [2, removeSnapshot],
  [2, group],
  [1, removeGroup],
];

const tickets: readonly Make[] = weights.flatMap(([weight, make]) => Array.from({ length: weight }, () => make));

export const nextOperation = async (parts: Parts): Promise<Operation> => {
  for (;;) {
    const found = await parts.random.pick(tickets)(parts);
    if (found !== undefined) return found;
  }
};
