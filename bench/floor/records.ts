const uid = "0b6f4c1e-5d9a-4a57-9d6c-3f1f2f0a7c11";
const staging = "/var/lib/holdfast/volumes/0b6f4c1e5d9a4a579d6c3f1f2f0a7c11/staging";
const target = "/var/lib/holdfast/volumes/0b6f4c1e5d9a4a579d6c3f1f2f0a7c11/targets/0a1b2c3d4e5f";

/** What a store holds of one volume: two kilobytes of JSON. */
export const volumeRecord = (volume: string, revision: number): string => {
  const json = JSON.stringify({ volume, revision, uid, epoch: { gen: 1, ctr: revision }, staging, target });
  return json + " ".repeat(2048 - json.length);
};

/** One line of a journal. */
export const journalRecord = (volume: string, event: string): string =>
  `${JSON.stringify({ volume, event, uid, staging, target }).padEnd(500)}\n`;
