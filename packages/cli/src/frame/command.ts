import type { Context } from "./context.ts";

/** What completion offers for an argument or an option: names that the controller knows, or fixed words. */
export type Completes = "volume" | "node" | "plugin" | "snapshot" | "workload" | "secret" | "file" | readonly string[];

export interface ArgumentSpec {
  readonly name: string;
  readonly help: string;
  readonly optional?: true;
  /** Takes all that follow. */
  readonly many?: true;
  readonly completes?: Completes;
}

export interface OptionSpec {
  /** As in `-f, --file <path>`; without a value in angle brackets it is a switch. */
  readonly flags: string;
  readonly help: string;
  readonly required?: true;
  /** May be given several times. */
  readonly many?: true;
  readonly completes?: Completes;
}

export interface Example {
  readonly line: string;
  readonly says: string;
}

/** What was given on the command line, by the names of the table. */
export interface Input {
  arg(name: string): string;
  optionalArg(name: string): string | undefined;
  args(name: string): readonly string[];
  text(name: string): string | undefined;
  list(name: string): readonly string[];
  flag(name: string): boolean;
}

/** One command: a row of the table that help, completion, parsing and docs/cli.md are made from. */
export interface Command {
  /** For example `["volume", "create"]`. */
  readonly path: readonly string[];
  readonly summary: string;
  /** A paragraph for the help of the command itself. */
  readonly description?: string;
  readonly args?: readonly ArgumentSpec[];
  readonly options?: readonly OptionSpec[];
  readonly examples: readonly Example[];
  run(context: Context, input: Input): Promise<void>;
}

export interface Group {
  readonly name: string;
  readonly summary: string;
}
