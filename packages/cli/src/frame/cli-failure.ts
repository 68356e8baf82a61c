import type { ExitCode } from "./exit-code.ts";

export interface CliFailureInit {
  readonly exitCode: ExitCode;
  /** A stable word, as those of the services (docs/errors.md). */
  readonly reason: string;
  readonly message: string;
  /** Further lines: what is wrong, one each. */
  readonly details?: readonly string[];
  /** What to do now, one command or sentence each. */
  readonly next?: readonly string[];
}

/** A command that ends without having done what was asked, in words for a person and with a code for a program. */
export class CliFailure extends Error {
  readonly exitCode: ExitCode;
  readonly reason: string;
  readonly details: readonly string[];
  readonly next: readonly string[];

  constructor({ exitCode, reason, message, details = [], next = [] }: CliFailureInit) {
    super(message);
    this.name = "CliFailure";
    this.exitCode = exitCode;
    this.reason = reason;
    this.details = details;
    this.next = next;
  }
}
