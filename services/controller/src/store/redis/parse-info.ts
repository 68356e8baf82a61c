/** The fields of what INFO answers. */
export const parseInfo = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries([...text.matchAll(/^(\w+):(.*?)\r?$/gm)].map(([, name, value]) => [name, value]));

/** Those that have read their first copy, and receive what is written now. */
export const onlineReplicas = (info: Readonly<Record<string, string>>): number =>
  Object.entries(info).filter(([name, value]) => /^slave\d+$/.test(name) && value.includes("state=online")).length;
