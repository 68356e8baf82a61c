/** "MUST be 63 characters or less, beginning and ending with an alphanumeric character with dashes, dots and alphanumerics between." */
export const isPluginName = (name: unknown): name is string =>
  typeof name === "string" && /^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$/.test(name);
