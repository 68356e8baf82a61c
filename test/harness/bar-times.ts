/** When bars stood, as the logs of all controllers tell it. */

interface Standing {
  /** namespace/volume */
  readonly volume: string;
  /** The instance that has the overtaken call. */
  readonly instance: string;
  readonly since: number;
  until: number;
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
const bookName = (via: string): string =>
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

export const barTimes = (output: string): BarTimes => {
  const lines = output
    .split("\n")
    .filter((line) => /overtaken|a bar is lifted|behind a bar/.test(line))
    .map(lineOf)
    .sort((a, b) => Date.parse(text(a["time"])) - Date.parse(text(b["time"])));
  const standing: Standing[] = [];
  const lifted: Record<string, number> = {};
  let stale = 0;
  for (const line of lines) {
    const [message, instance, at] = [
      text(line["message"]),
      bookName(text(line["instance"])),
      Date.parse(text(line["time"])),
    ];
    if (message.includes("refused as overtaken")) stale += 1;
    else if (message.includes("behind a bar"))
      standing.push({ volume: text(line["record"]), instance, since: at, until: Number.POSITIVE_INFINITY });
    else if (message.includes("a bar is lifted")) {
      lifted[text(line["how"])] = (lifted[text(line["how"])] ?? 0) + 1;
      const over = standing.find(
        (one) => one.volume === line["volume"] && one.instance === instance && one.until === Number.POSITIVE_INFINITY,
      );
      if (over !== undefined) over.until = at;
    }
  }
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
