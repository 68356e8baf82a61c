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
  of(row: Row): string;
}

/** Columns under their titles. */
export const tableText = <Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string =>
  draw([columns.map(({ title }) => title), ...rows.map((row) => columns.map((column) => column.of(row)))]);

export type Detail = readonly [label: string, value: string];

/** Names beside their values; what is empty is left out. */
export const detailsText = (details: readonly Detail[]): string => {
  const shown = details.filter(([, value]) => value !== "" && value !== "-");
  return shown.length === 0 ? "" : draw(shown.map(([label, value]) => [`${label}:`, value]));
};
