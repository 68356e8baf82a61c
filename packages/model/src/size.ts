const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;
const decimal: Readonly<Record<string, bigint>> = {
  kB: 10n ** 3n,
  KB: 10n ** 3n,
  MB: 10n ** 6n,
  GB: 10n ** 9n,
  TB: 10n ** 12n,
  PB: 10n ** 15n,
};

/** `10GiB`, `10Gi`, `500MB`, `1.5TiB` or bytes; undefined for anything else, and for what is no whole number of bytes. */
export const parseSize = (text: string): bigint | undefined => {
  const [, whole = "", fraction = "", unit = ""] = /^(\d+)(?:\.(\d+))?\s*([A-Za-z]*)$/.exec(text.trim()) ?? [];
  if (whole === "") return undefined;
  const binary = units.findIndex((name) => name === unit || (name !== "B" && name.slice(0, -1) === unit));
  const factor = unit === "" ? 1n : binary >= 0 ? 1024n ** BigInt(binary) : decimal[unit];
  if (factor === undefined) return undefined;
  const scale = 10n ** BigInt(fraction.length);
  const bytes = BigInt(whole + fraction) * factor;
  return bytes % scale === 0n ? bytes / scale : undefined;
};

/** `10 GiB`, `1.5 TiB`; `-` for nothing known. */
export const sizeWords = (bytes: bigint): string => {
  if (bytes === 0n) return "-";
  let unit = 0;
  while (unit < units.length - 1 && bytes >= 1024n ** BigInt(unit + 1)) unit += 1;
  const value = Number((bytes * 100n) / 1024n ** BigInt(unit)) / 100;
  return `${value >= 100 ? Math.round(value) : Number(value.toPrecision(3))} ${units[unit]}`;
};
