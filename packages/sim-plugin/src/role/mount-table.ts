import { readFile } from "node:fs/promises";

const unescapeField = (field: string): string =>
  field.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)));

/** How many mounts stand on exactly this path. */
export const mountsAt = async (where: string): Promise<number> => {
  const table = await readFile("/proc/self/mountinfo", "utf8");
  return table.split("\n").filter((line) => unescapeField(line.split(" ")[4] ?? "") === where).length;
};
