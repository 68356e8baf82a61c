export interface ProcessStat {
  /** In ticks since the boot; undefined when the text tells of none. */
  readonly startTime: string | undefined;
  /** As the kernel keeps them; 0 when the text tells of none. */
  readonly flags: number;
}

/** Of /proc/PID/stat. The name of the program stands second, in parentheses, and may hold spaces and parentheses itself. */
export function processStat(text: string): ProcessStat {
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { startTime: fields[19], flags: Number(fields[6] ?? 0) };
}
