/**
 * Named places where a process ends when a test asks for it: `agent.stage.after-journal=kill`, or `=kill@3` for the third time it is
 * passed. The list of names is the service's own; without a setting a place costs one look into an empty map.
 */
export interface FailpointSetting<Name extends string> {
  readonly name: Name;
  /** Fires the n-th time it is passed. */
  readonly at: number;
}

export interface ParsedFailpoints<Name extends string> {
  readonly settings: readonly FailpointSetting<Name>[];
  readonly mistakes: readonly string[];
}

/** "a=kill,b=kill@2". Every mistake at once. */
export function parseFailpoints<Name extends string>(names: readonly Name[], text: string): ParsedFailpoints<Name> {
  const settings: FailpointSetting<Name>[] = [];
  const mistakes: string[] = [];
  for (const part of text.split(",").map((each) => each.trim())) {
    if (part === "") continue;
    const [, name = "", at = "1"] = /^([a-z.-]+)=kill(?:@([1-9]\d{0,5}))?$/.exec(part) ?? [];
    const known = names.find((each) => each === name);
    if (known === undefined) mistakes.push(`${part}: not a known failpoint followed by =kill or =kill@<n>`);
    else settings.push({ name: known, at: Number(at) });
  }
  return { settings, mistakes };
}

export function createFailpoints<Name extends string>(
  settings: readonly FailpointSetting<Name>[],
  kill: (name: Name) => void,
): (name: Name) => void {
  const left = new Map(settings.map(({ name, at }) => [name, at]));
  return (name) => {
    const count = left.get(name);
    if (count === undefined) return;
    left.set(name, count - 1);
    if (count === 1) kill(name);
  };
}
