/** An environment file as systemd and compose read it: NAME=value a line, # before a remark, quotes around a value if need be. */
export const readEnvFile = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text.split("\n").flatMap((line) => {
      const [, name, raw] = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line) ?? [];
      if (name === undefined || raw === undefined) return [];
      const value = raw.trim();
      const quoted = /^(["'])(.*)\1$/.exec(value)?.[2];
      return [[name, quoted ?? value] as const];
    }),
  );
