/** Which of the 16384 slots of a Redis Cluster a key is in: the CRC16 (XMODEM) of what stands between its first braces, or of all of it. */

const slots = 16_384;
const polynomial = 0x1021;

const crc16 = (bytes: Uint8Array): number => {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = ((crc << 1) ^ ((crc & 0x8000) === 0 ? 0 : polynomial)) & 0xffff;
  }
  return crc;
};

export const hashSlot = (key: string): number => {
  const tag = /^[^{]*\{([^}]+)\}/.exec(key)?.[1];
  return crc16(new TextEncoder().encode(tag ?? key)) % slots;
};
