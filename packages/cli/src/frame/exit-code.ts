import type { ErrorKind } from "@holdfast/shared/errors/holdfast-error";

/** What a shell script may rely on; docs/cli.md lists them. */
export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  refused: 4,
  unavailable: 5,
  timeUp: 6,
  blocked: 7,
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

export const exitCodeOfKind: Readonly<Record<ErrorKind, ExitCode>> = {
  invalid: exitCodes.usage,
  not_found: exitCodes.notFound,
  already_exists: exitCodes.refused,
  precondition: exitCodes.refused,
  aborted: exitCodes.refused,
  exhausted: exitCodes.refused,
  out_of_range: exitCodes.refused,
  permission: exitCodes.refused,
  unauthenticated: exitCodes.refused,
  unimplemented: exitCodes.failed,
  internal: exitCodes.failed,
  data_loss: exitCodes.failed,
  unknown: exitCodes.unavailable,
  unavailable: exitCodes.unavailable,
  cancelled: exitCodes.unavailable,
  deadline: exitCodes.timeUp,
};
