/** The few fields of ext4's and xfs' superblocks that the driver goes by. Pure: bytes in, facts out; undefined for another filesystem. */

/** Enough of the beginning of an image for both. */
export const superblockBytes = 4096;

export interface Superblock {
  /** As large as the filesystem believes its device to be. */
  readonly bytes: bigint;
  readonly uuid: string;
}

const ext4Start = 1024;
const ext4Magic = 0xef53;
const ext4Is64Bit = 0x80;
const xfsMagic = 0x58465342;

export function parseExt4(image: Buffer): Superblock | undefined {
  const block = image.subarray(ext4Start, ext4Start + 1024);
  if (block.length < 1024 || block.readUInt16LE(0x38) !== ext4Magic) return undefined;
  const is64Bit = (block.readUInt32LE(0x60) & ext4Is64Bit) !== 0;
  const blocks = (is64Bit ? BigInt(block.readUInt32LE(0x150)) << 32n : 0n) | BigInt(block.readUInt32LE(0x4));
  return { bytes: blocks << (10n + BigInt(block.readUInt32LE(0x18))), uuid: block.toString("hex", 0x68, 0x78) };
}

export function parseXfs(image: Buffer): Superblock | undefined {
  if (image.length < 512 || image.readUInt32BE(0) !== xfsMagic) return undefined;
  return { bytes: image.readBigUInt64BE(8) * BigInt(image.readUInt32BE(4)), uuid: image.toString("hex", 32, 48) };
}
