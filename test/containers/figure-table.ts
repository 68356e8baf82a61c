/** Figures by part, as a table of Markdown: docs/containers.md has one. */
export const createFigureTable = (columns: readonly string[]) => {
  const rows = new Map<string, Map<string, string>>();
  return {
    set(part: string, column: string, value: number | string): void {
      if (!columns.includes(column)) throw new Error(`the table has no column ${column}`);
      const row = rows.get(part) ?? new Map<string, string>();
      rows.set(part, row.set(column, String(value)));
    },
    text: (): string =>
      [
        `| part | ${columns.join(" | ")} |`,
        `|---|${columns.map(() => "---|").join("")}`,
        ...[...rows].map(
          ([part, row]) => `| ${part} | ${columns.map((column) => row.get(column) ?? "–").join(" | ")} |`,
        ),
      ].join("\n"),
  };
};
