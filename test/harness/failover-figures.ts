/** What controllers and agents told of a run. */

export interface ToldFigures {
  /** Losses that controllers saw by the numbers of commits, and how many commits were missing, where so many can be counted. */
  readonly lossesTold: number;
  readonly lostTold: number;
  /** So often the gate of a controller shut after it was open. */
  readonly gatesShut: number;
}

/** `output`: what `Cluster.output` answers, in which each life of a process begins with a line of its own. */
export const figuresOfOutput = (output: string): ToldFigures => {
  const losses = new Map<string, number>();
  const loss = /newest commit has number (\d+), and \d+ was seen here: (?:(\d+) commits? (?:is|are) missing|its last)/;
  let open = false;
  let gatesShut = 0;
  for (const line of output.split("\n")) {
    const [, newest, missing = "0"] = loss.exec(line) ?? [];
    if (newest !== undefined) losses.set(newest, Math.max(losses.get(newest) ?? 0, Number(missing)));
    const shuts = line.includes('"message":"the store grants nothing"');
    gatesShut += Number(open && shuts);
    if (line.startsWith("--- ") || shuts) open = false;
    if (line.includes('"message":"the store may grant"')) open = true;
  }
  return {
    lossesTold: losses.size,
    lostTold: [...losses.values()].reduce((sum, missing) => sum + missing, 0),
    gatesShut,
  };
};

const refused = /^holdfast_order_seconds_count\{[^}]*operation="(\w+)"[^}]*code="GENERATION"[^}]*\} (\d+)$/gm;

/** `metrics`: the pages of all agents. */
export const refusedByGeneration = (metrics: readonly string[]): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const page of metrics)
    for (const [, operation = "", count] of page.matchAll(refused))
      counts[operation] = (counts[operation] ?? 0) + Number(count);
  return counts;
};

export const percentile = (values: readonly number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? 0;
