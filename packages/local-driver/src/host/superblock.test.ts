import fc from "fast-check";
import { expect, it } from "vitest";
import { parseExt4, parseXfs, superblockBytes } from "./superblock.ts";

const uuid = "00112233445566778899aabbccddeeff";

function ext4({ blocks, logBlock, is64Bit }: { blocks: bigint; logBlock: number; is64Bit: boolean }): Buffer {
  const image = Buffer.alloc(superblockBytes);
  image.writeUInt16LE(0xef53, 1024 + 0x38);
  image.writeUInt32LE(Number(blocks & 0xffffffffn), 1024 + 0x4);
  image.writeUInt32LE(Number(blocks >> 32n), 1024 + 0x150);
  image.writeUInt32LE(logBlock, 1024 + 0x18);
  image.writeUInt32LE(is64Bit ? 0x82 : 0x2, 1024 + 0x60);
  image.write(uuid, 1024 + 0x68, "hex");
  return image;
}

it("reads ext4, with 64 bits and without", () => {
  const blocks = (3n << 32n) | 7n;
  expect(parseExt4(ext4({ blocks, logBlock: 2, is64Bit: true }))).toEqual({ bytes: blocks * 4096n, uuid });
  // Without the feature the upper half is something else.
  expect(parseExt4(ext4({ blocks, logBlock: 0, is64Bit: false }))).toEqual({ bytes: 7n * 1024n, uuid });
});

it("reads xfs", () => {
  const image = Buffer.alloc(superblockBytes);
  image.write("XFSB");
  image.writeUInt32BE(4096, 4);
  image.writeBigUInt64BE(76800n, 8);
  image.write(uuid, 32, "hex");
  expect(parseXfs(image)).toEqual({ bytes: 314572800n, uuid });
  expect(parseExt4(image)).toBeUndefined();
});

it("says of anything else that it is not theirs, however short", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: superblockBytes }), (bytes) => {
      const image = Buffer.from(bytes);
      const isExt4 = image.length >= 2048 && image.readUInt16LE(1024 + 0x38) === 0xef53;
      expect(parseExt4(image) === undefined).toBe(!isExt4);
      expect(parseXfs(image)).toBeUndefined();
    }),
  );
  for (let length = 0; length < 2048; length += 1)
    expect(parseExt4(ext4({ blocks: 1n, logBlock: 2, is64Bit: true }).subarray(0, length))).toBeUndefined();
});
