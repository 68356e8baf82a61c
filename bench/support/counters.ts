/** One counter of a service's /metrics, over all its labels; undefined when the service has none of that name. */
export const readCounter = async (admin: string, name: string): Promise<number | undefined> => {
  const text = await (await fetch(`http://${admin}/metrics`)).text();
  const values = text
    .split("\n")
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .map((line) => Number(line.slice(line.lastIndexOf(" ") + 1)));
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
};
