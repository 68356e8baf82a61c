import type { ConfigSchema } from "./config.ts";
import { formatDuration, type Setting } from "./setting.ts";

/** A Markdown table of the settings, for docs/operations.md. */
export function describeConfig(schema: ConfigSchema): string {
  const rows = Object.values(schema).map(
    (one) => `| \`${one.env}\` | ${cell(one.type)} | ${cell(defaultText(one))} | ${cell(one.doc)} |`,
  );
  return ["| setting | value | default | meaning |", "|---|---|---|---|", ...rows, ""].join("\n");
}

function defaultText(one: Setting<unknown>): string {
  if (one.required) return "**required**";
  const value = one.default;
  if (value === undefined) return "none";
  if (one.secret) return "set";
  if (Array.isArray(value)) return value.length === 0 ? "empty" : `\`${value.join(",")}\``;
  if (typeof value === "number" && one.type.startsWith("duration")) return `\`${formatDuration(value)}\``;
  return value === "" ? "empty" : `\`${String(value)}\``;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
