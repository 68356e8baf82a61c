import { type HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { CliFailure } from "./cli-failure.ts";
import { exitCodeOfKind, exitCodes } from "./exit-code.ts";

/** What a failure says to a person, whatever it was thrown as. */
export const asCliFailure = (error: unknown, address: string): CliFailure => {
  if (error instanceof CliFailure) return error;
  if (isHoldfastError(error)) return ofService(error, address);
  return new CliFailure({
    exitCode: exitCodes.failed,
    reason: "INTERNAL",
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    next: ["This is a fault of the command line itself; please report it with the lines above."],
  });
};

const ofService = (error: HoldfastError, address: string): CliFailure =>
  new CliFailure({
    exitCode: exitCodeOfKind[error.kind],
    reason: error.reason,
    message: error.message,
    details: error.violations.map(({ field, description }) => `${field}: ${description}`),
    next: nextOf(error, address),
  });

/** The connection was made and ended before a word was said, as the library words it. */
const endedByPeer = /Failed to connect \(|Connection dropped/;

const nextOf = (error: HoldfastError, address: string): readonly string[] => {
  if (error.kind === "unavailable" && error.metadata["namespace"] === undefined)
    return [
      `Is a controller listening on ${address}? Set --address, HOLDFAST_ADDRESS or \`address\` in the config file.`,
      ...(endedByPeer.test(error.message)
        ? ["A controller with certificates ends a connection without TLS: name yours by --certs."]
        : []),
      "What was asked may have been done: the same command again is safe.",
    ];
  const { namespace, volume } = error.metadata;
  if (volume !== undefined && namespace !== undefined && error.kind !== "not_found" && error.kind !== "invalid")
    return [`holdfast volume explain ${volume} --namespace ${namespace}`];
  return [];
};

export const failureText = (failure: CliFailure): string =>
  [
    `holdfast: ${failure.message} (${failure.reason})`,
    // The message of an INVALID_ARGUMENT repeats them.
    ...failure.details.filter((line) => !failure.message.includes(line)).map((line) => `  ${line}`),
    ...failure.next.map((line, i) => `${i === 0 ? "next: " : "      "}${line}`),
    "",
  ].join("\n");

export const failureJson = (failure: CliFailure): string =>
  `${JSON.stringify({
    error: {
      reason: failure.reason,
      message: failure.message,
      details: failure.details,
      next: failure.next,
      exit_code: failure.exitCode,
    },
  })}\n`;
