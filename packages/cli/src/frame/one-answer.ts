/** Every answer about one object, or about those of one request: the forms that it has, and their names for other commands. */
import type { Input, OptionSpec } from "./command.ts";
import type { Output, Shown } from "./output.ts";

export const outputFlags = "-o, --output <form>";

/** Of a command that answers by answerOne. The parser refuses every other form, before anything is done. */
export const oneOption: OptionSpec = {
  flags: outputFlags,
  help: "json, yaml or name",
  completes: ["json", "yaml", "name"],
};

export const namesText = (names: readonly string[]): string => names.map((name) => `${name}\n`).join("");

export interface One<Message> {
  readonly answer: Shown<Message>;
  /** What other commands take. */
  readonly names: readonly string[];
  people(): string;
}

export const answerOne = <Message>(
  out: Pick<Output, "answer">,
  input: Input,
  { answer, names, people }: One<Message>,
): void => out.answer(answer, () => (input.text("output") === "name" ? namesText(names) : people()));
