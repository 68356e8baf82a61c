/** One mistake in a spec file, where a person finds it. */
export interface SpecViolation {
  readonly line: number;
  readonly column: number;
  /** As in the API: `capabilities[0].access_mode`. */
  readonly field: string;
  readonly rule: string;
}

export const violationText = (file: string, { line, column, field, rule }: SpecViolation): string =>
  `${file}:${line}:${column}: ${field === "" ? "" : `${field}: `}${rule}`;
