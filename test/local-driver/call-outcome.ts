import { ClientError, Status } from "nice-grpc";

/** OK, or the code by its name. */
export type Code = keyof typeof Status;

export type CallOutcome<T> =
  | { readonly code: "OK"; readonly answer: T }
  | { readonly code: Exclude<Code, "OK">; readonly details: string };

const names = new Map(Object.entries(Status).map(([name, code]) => [code as Status, name as Code]));

export const codeName = (code: Status): Code => names.get(code) ?? "UNKNOWN";

/** A refusal is an outcome too; whatever is no answer of gRPC is a fault of the test and thrown on. */
export const outcomeOf = async <T>(call: Promise<T>): Promise<CallOutcome<T>> => {
  try {
    return { code: "OK", answer: await call };
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    const code = codeName(error.code);
    return { code: code === "OK" ? "UNKNOWN" : code, details: error.details };
  }
};
