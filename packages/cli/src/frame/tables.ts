import Table from "cli-table3";

const bare = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "  ",
} as const;

const plain = { head: [], border: [], "padding-left": 0, "padding-right": 0 };

const draw = (rows: readonly (readonly string[])[]): string => {
  const table = new Table({ chars: bare, style: plain });
  table.push(...rows.map((row) => row.map((cell) => cell.replaceAll("\n", " "))));
  return table
    .toString()
    .split("\n")
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
};

export interface Column<Row> {
  readonly title: string;
  /** Shown with `-o wide` alone, or when it is named. */
  readonly wide?: boolean;
  of(row: Row): string;
}

export const narrowColumns = <Row>(columns: readonly Column<Row>[]): readonly Column<Row>[] =>
  columns.filter(({ wide }) => wide !== true);

const gap = 2;
const least = 8;

/** A path loses its middle, since both ends tell it from others; other text its end. */
const cut = (cell: string, width: number): string => {
  if (cell.length <= width) return cell;
  const tail = cell.startsWith("/") ? Math.floor((width - 1) / 2) : 0;
  return `${cell.slice(0, width - 1 - tail)}…${tail === 0 ? "" : cell.slice(-tail)}`;
};

/** The widest columns give first, none below its title, until a row has the width or there is nothing to give. */
const fitted = (rows: readonly (readonly string[])[], width: number): readonly (readonly string[])[] => {
  const [titles = []] = rows;
  const widths = titles.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  const floors = titles.map((title, i) => Math.min(widths[i] ?? 0, Math.max(title.length, least)));
  const over = (): number => widths.reduce((sum, each) => sum + each, gap * (widths.length - 1)) - width;
  for (let left = over(); left > 0; left -= 1) {
    const slack = widths.map((each, i) => (each > (floors[i] ?? 0) ? each : 0));
    const widest = slack.indexOf(Math.max(...slack));
    if ((slack[widest] ?? 0) === 0) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return rows.map((row) => row.map((cell, i) => cut(cell, widths[i] ?? 0)));
};

/** Columns under their titles; cells are cut only where the table has to have a width. */
export const tableText = <Row>(columns: readonly Column<Row>[], rows: readonly Row[], width?: number): string => {
  const cells = [
    columns.map(({ title }) => title),
    ...rows.map((row) => columns.map((column) => column.of(row).replaceAll("\n", " "))),
  ];
  return draw(width === undefined ? cells : fitted(cells, width));
};

export type Detail = readonly [label: string, value: string];

/** Names beside their values; what is empty is left out. */
export const detailsText = (details: readonly Detail[]): string => {
  const shown = details.filter(([, value]) => value !== "" && value !== "-");
  return shown.length === 0 ? "" : draw(shown.map(([label, value]) => [`${label}:`, value]));
};
