/**
 * The filesystem in an image: prove blank → intent → mkfs → finished → loop device → mount.
 *
 * F1 mkfs runs only over contents proven blank, or under an intent of ours; an intent is stored only over contents proven blank.
 * F2 An image under an intent is never mounted and never bound: whoever else could write to it settles the intent first.
 * F3 No loop device while mkfs or fsck works on the file: the device's cache would not see it.
 * F4 An image whose filesystem is mounted anywhere is neither formatted nor checked.
 */
import type { FsType, ImageFormat, VolumeRecord } from "../domain/records.ts";
import type { Contents, LoopDevice } from "../ports.ts";
import { letGoOfIdleLoops } from "./idle-loops.ts";
import { describeMount, lookAt, type Mounted } from "./mounted.ts";
import { type NodeParts, refusal } from "./node-parts.ts";

export interface ImageMount {
  readonly path: string;
  readonly fsType: FsType;
  readonly options: readonly string[];
  readonly readonly: boolean;
}

/** True when the filesystem may be smaller than its device. */
export async function mountImage(
  parts: NodeParts,
  record: VolumeRecord,
  { path, fsType, options, readonly }: ImageMount,
  mounted: Mounted,
  signal: AbortSignal,
): Promise<boolean> {
  const { host } = parts;
  const { image } = host.state.volumes.paths(record.id);
  refuseRawUse(parts, record, mounted);
  const holder = mounted.loops.find((loop) => mounted.filesystemsOn(loop).length > 0);
  if (holder?.readonly && !readonly) throw refusal(parts, record, "FAILED_PRECONDITION", heldReadonly(mounted, holder));
  let fits = false;
  if (holder === undefined) {
    await letGoOfIdleLoops(parts, record, mounted, signal); // F3
    fits = await makeFilesystem(parts, record, fsType, signal);
    if (!fits && fsType === "ext4") await host.images.fitUnmounted(image, fsType, signal);
  }
  const loop = holder ?? (await host.loops.attach(image, { readonly: false }, signal));
  await host.mounts.mountDevice(loop.device, path, { fsType, options }, signal);
  return !fits && fsType !== "ext4";
}

/** True when mkfs has run. F4 is kept by the caller. */
export async function makeFilesystem(
  parts: NodeParts,
  record: VolumeRecord,
  fsType: FsType,
  signal: AbortSignal,
): Promise<boolean> {
  const { images, state } = parts.host;
  const { image } = state.volumes.paths(record.id);
  const store = (format: ImageFormat) => state.volumes.change(record.id, (before) => ({ ...before, format }));
  if (record.format?.finished !== false) {
    const contents = await images.contents(image, signal);
    if (record.format !== undefined) {
      if (contents.kind === "filesystem" && contents.fsType === record.format.fsType) return false;
      throw refusal(parts, record, "FAILED_PRECONDITION", changedContents(image, record.format, contents));
    }
    if (contents.kind !== "blank") throw refusal(parts, record, "FAILED_PRECONDITION", carriesData(image, contents)); // F1
  }
  await store({ fsType, finished: false });
  await images.format(image, fsType, signal);
  await store({ fsType, finished: true });
  return true;
}

/** Before a workload gets the raw device: an intent that stayed would let a later mkfs run over what the workload wrote (F2). */
export async function settleIntent(parts: NodeParts, record: VolumeRecord, signal: AbortSignal): Promise<void> {
  if (record.format?.finished !== false) return;
  const { images, state } = parts.host;
  const { image } = state.volumes.paths(record.id);
  await letGoOfIdleLoops(parts, record, await lookAt(parts, record), signal); // F3
  if ((await images.contents(image, signal)).kind === "blank")
    await state.volumes.change(record.id, (before) => ({ ...before, format: undefined }));
  else await makeFilesystem(parts, record, record.format.fsType, signal);
}

/** Before a workload gets the raw device: two writers, one through the filesystem and one beside it, would end the volume. */
export function refuseMounted(parts: NodeParts, record: VolumeRecord, mounted: Mounted): void {
  const [filesystem] = mounted.loops.flatMap((loop) => mounted.filesystemsOn(loop));
  if (filesystem === undefined) return;
  const text = `its filesystem is mounted at ${describeMount(filesystem)}, and so its device is not given out; unmount that first`;
  throw refusal(parts, record, "FAILED_PRECONDITION", text);
}

function refuseRawUse(parts: NodeParts, record: VolumeRecord, mounted: Mounted): void {
  const [bound] = mounted.loops.flatMap((loop) => mounted.bindsOf(loop));
  if (bound === undefined) return;
  const text = `its device is still bound at ${describeMount(bound)}, where somebody may write to it; unpublish that first`;
  throw refusal(parts, record, "FAILED_PRECONDITION", text);
}

const heldReadonly = (mounted: Mounted, holder: LoopDevice): string =>
  `its filesystem is mounted through the read-only device ${holder.device} at ${mounted
    .filesystemsOn(holder)
    .map(describeMount)
    .join(", ")}, not by this driver; unmount that first`;

const found: { readonly [K in Contents["kind"]]: (contents: Extract<Contents, { kind: K }>) => string } = {
  blank: () => "nothing",
  filesystem: ({ fsType }) => `a filesystem of type ${fsType}`,
  signature: ({ name }) => `the signature of ${name}`,
  data: ({ offset }) => `data without a known signature (first at byte ${offset})`,
};

const describe = (contents: Contents): string => (found[contents.kind] as (it: Contents) => string)(contents);

const changedContents = (image: string, { fsType }: ImageFormat, contents: Contents): string =>
  `its image ${image} was formatted as ${fsType} and now carries ${describe(contents)}; nothing was changed: restore it, or use it as a block volume`;

const carriesData = (image: string, contents: Contents): string =>
  `its image ${image} was never formatted by this driver and carries ${describe(contents)}; nothing was changed: use it as a block volume, or create another volume`;
