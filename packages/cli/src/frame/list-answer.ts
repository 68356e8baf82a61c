/** Every list of the command line: which columns, in which form, once or again and again. */
import { CliFailure } from "./cli-failure.ts";
import type { Input, OptionSpec } from "./command.ts";
import type { Context } from "./context.ts";
import { exitCodes } from "./exit-code.ts";
import { namesText, outputFlags } from "./one-answer.ts";
import type { Shown } from "./output.ts";
import { clearScreen, showAgain, watchOption } from "./show-again.ts";
import { type Column, narrowColumns, tableText } from "./tables.ts";

export interface Listing<Row, Message> {
  /** All pages of it. */
  read(): Promise<readonly Row[]>;
  answer(rows: readonly Row[]): Shown<Message>;
  columns(now: number): readonly Column<Row>[];
  /** What other commands take. */
  name(row: Row): string;
  /** In place of a table without rows. */
  readonly none: string;
}

const forms = ["wide", "json", "yaml", "name", "columns=<titles>"];

export const listOptions: readonly OptionSpec[] = [
  {
    flags: outputFlags,
    help: "wide (every column, nothing cut), json, yaml, name, or columns=ID,STATE with titles of columns",
  },
  watchOption,
];

const usage = (message: string): CliFailure => new CliFailure({ exitCode: exitCodes.usage, reason: "USAGE", message });

const titleOf = (text: string): string => text.trim().toUpperCase().replaceAll("-", " ");

const namedColumns = <Row>(list: string, all: readonly Column<Row>[]): readonly Column<Row>[] =>
  list.split(",").map((text) => {
    const found = all.find(({ title }) => title === titleOf(text));
    if (found !== undefined) return found;
    const titles = all.map(({ title }) => title.replaceAll(" ", "-")).join(", ");
    throw usage(`--output columns: there is no column ${JSON.stringify(text)}; there are ${titles}`);
  });

/** What people read. Throws for a form that there is not. */
const people = <Row, Message>(context: Context, input: Input, listing: Listing<Row, Message>) => {
  const { io } = context;
  const form = input.text("output") ?? "";
  const named = /^columns=(.*)$/s.exec(form)?.[1];
  const known = named !== undefined || ["", "wide", "json", "yaml", "name"].includes(form);
  if (!known) throw usage(`--output ${form}: there are ${forms.join(", ")}`);
  if (named !== undefined) namedColumns(named, listing.columns(io.now()));
  return (rows: readonly Row[]): string => {
    if (form === "name") return namesText(rows.map((row) => listing.name(row)));
    if (rows.length === 0) return listing.none;
    const all = listing.columns(io.now());
    if (named !== undefined) return tableText(namedColumns(named, all), rows);
    if (form === "wide") return tableText(all, rows);
    return tableText(narrowColumns(all), rows, io.stdout.terminal ? io.stdout.columns : undefined);
  };
};

export const answerList = async <Row, Message>(
  context: Context,
  input: Input,
  listing: Listing<Row, Message>,
): Promise<void> => {
  const { io, out } = context;
  const text = people(context, input, listing);
  const redraws = io.stdout.terminal && !out.json;
  let last: string | undefined;
  const show = async (): Promise<void> => {
    const rows = await listing.read();
    const answer = listing.answer(rows);
    // Ages change by themselves: on a terminal they are drawn anew, elsewhere a change of a record alone is told.
    const bytes = Buffer.from(answer.codec.encode(answer.message).finish()).toString("latin1");
    if (bytes === last && !redraws) return;
    if (!input.flag("watch")) out.answer(answer, () => text(rows));
    else if (redraws) out.line(answer, () => `${clearScreen}${text(rows)}`);
    else out.line(answer, () => `${last === undefined ? "" : "\n"}${text(rows)}`);
    last = bytes;
  };
  await showAgain(io, input.flag("watch"), show);
};
