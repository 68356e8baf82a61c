/** When bars stood, as the logs of all controllers tell it. */

interface Standing {
  /** namespace/volume */
  readonly volume: string;
  /** The instance that has the overtaken call. */
  readonly instance: string;
  readonly since: number;
  until: number;
}

/** By a person's word. */
export interface ClearedBar {
  /** namespace/volume */
  readonly volume: string;
  readonly instance: string;
  readonly at: number;
}

export interface BarTimes {
  readonly written: number;
  /** By how the end of the overtaken call was found. */
  readonly lifted: Readonly<Record<string, number>>;
  readonly stale: number;
  /** A bar stood then for a call of the volume at that instance. */
  stood(volume: string, instance: string, at: number): boolean;
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** As the plugin's book names the instance: that of a node has the node's name, one beside a controller the controller's. */
export const bookName = (via: string): string =>
  /^node (.*?): /.exec(via)?.[1] ?? /\/cp-(second|third)\//.exec(via)?.[1] ?? "first";

const lineOf = (line: string): Readonly<Record<string, unknown>> => {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
};

/** Clocks of processes on one machine agree; a call may leave a moment before the line that tells of it. */
const slackMs = 250;

export const barTimes = (output: string, cleared: readonly ClearedBar[] = []): BarTimes => {
  const lines = output
    .split("\n")
    .filter((line) => /overtaken|a bar is lifted|behind a bar/.test(line))
    .map(lineOf)
    .sort((a, b) => Date.parse(text(a["time"])) - Date.parse(text(b["time"])));
  const standing: Standing[] = [];
  const lifted: Record<string, number> = {};
  let stale = 0;
  const lift = (how: string, volume: string, instance: string, at: number): void => {
    lifted[how] = (lifted[how] ?? 0) + 1;
    const over = standing.find(
      (one) => one.volume === volume && one.instance === instance && one.since <= at && at < one.until,
    );
    if (over !== undefined) over.until = at;
  };
  for (const line of lines) {
    const [message, instance, at] = [
      text(line["message"]),
      bookName(text(line["instance"])),
      Date.parse(text(line["time"])),
    ];
    // An agent tells of it by itself, and the controller whose call it was does too, if it still is there.
    if (message.includes("refused as overtaken")) stale += /^node /.test(text(line["instance"])) ? 0 : 1;
    else if (message.includes("behind a bar"))
      standing.push({ volume: text(line["record"]), instance, since: at, until: Number.POSITIVE_INFINITY });
    else if (message.includes("a bar is lifted")) lift(text(line["how"]), text(line["record"]), instance, at);
  }
  for (const { volume, instance, at } of cleared) lift("person", volume, bookName(instance), at);
  return {
    written: standing.length,
    lifted,
    stale,
    stood: (volume, instance, at) =>
      standing.some(
        (one) =>
          one.volume === volume && one.instance === instance && one.since - slackMs <= at && at <= one.until + slackMs,
      ),
  };
};
