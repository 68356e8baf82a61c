import type { SnapshotRecord, VolumeRecord } from "../domain/records.ts";
import type { Host } from "../ports.ts";
import { copyContents } from "./copy-contents.ts";
import { duringQuiet } from "./during-quiet.ts";
import type { Room } from "./room.ts";
import { mustBeSound, pathsOf } from "./sound-image.ts";

export interface Picture {
  readonly volume: VolumeRecord;
  /** Of the snapshot. */
  readonly name: string;
}

export interface TakeOptions {
  readonly live: boolean;
  readonly parameters: Readonly<Record<string, string>>;
  readonly groupId: string | undefined;
}

/** One snapshot of each volume, all of the same moment: none of them changes from before the first copy to after the last. */
export async function takeSnapshots(
  { host, room }: { readonly host: Host; readonly room: Room },
  pictures: readonly Picture[],
  { live, parameters, groupId }: TakeOptions,
  signal: AbortSignal,
): Promise<readonly SnapshotRecord[]> {
  let bytes = 0n;
  for (const { volume } of pictures) {
    await mustBeSound(host, volume);
    if (volume.type === "image") bytes += await host.space.allocatedBytes(pathsOf(host, volume).image);
  }
  const giveBack = await room.promise(bytes);
  try {
    const volumes = pictures.map(({ volume }) => volume);
    return await duringQuiet(
      host,
      volumes,
      { live },
      async () => {
        const createdAt = host.clock.now();
        const taken: SnapshotRecord[] = [];
        for (const { volume, name } of pictures) {
          const { id: volumeId, type, capacityBytes: sizeBytes, format } = volume;
          const common = { kind: "snapshot", id: host.newId(), name, volumeId, type, sizeBytes, format } as const;
          const record: SnapshotRecord = { ...common, createdAt, parameters, groupId };
          await host.state.snapshots.add(record, (paths) => copyContents(host, volume, paths, signal));
          taken.push(record);
        }
        return taken;
      },
      signal,
    );
  } finally {
    giveBack();
  }
}
