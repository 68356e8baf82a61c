/** What an examination found. Printed by the services' `check` as JSON, a line each; docs/doctor.md has a row for each id. */
export interface Finding {
  /** A stable word in kebab-case. */
  readonly id: string;
  readonly level: "ok" | "warning" | "fault";
  /** What was looked at: a path, an address, a node. */
  readonly subject: string;
  readonly message: string;
  /** What to do; empty when nothing has to be done. */
  readonly cure: string;
}

type Told = (id: string, subject: string, message: string, cure: string) => Finding;

export const fault: Told = (id, subject, message, cure) => ({ id, level: "fault", subject, message, cure });
export const warning: Told = (id, subject, message, cure) => ({ id, level: "warning", subject, message, cure });
export const fine = (id: string, subject: string, message: string): Finding => ({
  id,
  level: "ok",
  subject,
  message,
  cure: "",
});

const isFinding = (value: unknown): value is Finding =>
  typeof value === "object" &&
  value !== null &&
  ["id", "subject", "message", "cure"].every((name) => typeof (value as Record<string, unknown>)[name] === "string") &&
  ["ok", "warning", "fault"].includes((value as Finding).level);

/** The lines that a `check` printed; what is none is left out. */
export const readFindings = (text: string): readonly Finding[] =>
  text.split("\n").flatMap((line) => {
    try {
      const value: unknown = JSON.parse(line);
      return isFinding(value) ? [value] : [];
    } catch {
      return [];
    }
  });
