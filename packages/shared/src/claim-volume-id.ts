/** The volume that a claim brings: its id, by which a controller makes it and the agent of its node knows it. */
import { createHash } from "node:crypto";

const hashDigits = 16;
const readable = 64 - hashDigits - 1;

/** The same for the same claim, for ever: by it no second one is made (CV1). Readable as far as there is room and the rules for ids allow; the digest tells keys apart that read the same. */
export const claimVolumeId = (workload: string, alias: string): string => {
  const digest = createHash("sha256").update(`${workload}\n${alias}`).digest("hex").slice(0, hashDigits);
  const words = `${workload}-${alias}`
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "");
  return [...(words === "" ? [] : [words.slice(0, readable)]), digest].join("-");
};
