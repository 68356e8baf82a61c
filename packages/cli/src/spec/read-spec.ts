import type { JsonValue } from "@bufbuild/protobuf";
import { type FieldViolation, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { boundedYaml } from "../frame/bounded-text.ts";
import { CliFailure } from "../frame/cli-failure.ts";
import type { Context } from "../frame/context.ts";
import { exitCodes } from "../frame/exit-code.ts";
import type { SpecDocument } from "./spec-document.ts";
import { type SpecViolation, violationText } from "./spec-violation.ts";

export interface ReadSpec<Request> {
  readonly request: Request;
  /** Runs a call with the request; what the controller finds wrong with it is told by line too. */
  call<Answer>(act: () => Promise<Answer>): Promise<Answer>;
  /** The failure for what the command finds wrong with it, told by line. */
  refused(says: string, violations: readonly FieldViolation[]): CliFailure;
}

export interface SpecKind<Request> {
  /** Of the API, e.g. `holdfast.v1.CreateVolumeRequest`. */
  readonly type: string;
  readonly codec: { decode(bytes: Uint8Array): Request };
  /** Fields that the command line sets itself. */
  readonly hidden: readonly string[];
}

const badSpec = (file: string, violations: readonly SpecViolation[]): CliFailure =>
  new CliFailure({
    exitCode: exitCodes.usage,
    reason: "BAD_SPEC",
    message: `${file} has ${violations.length === 1 ? "a mistake" : `${violations.length} mistakes`}; nothing was sent`,
    details: violations.map((violation) => violationText(file, violation)),
  });

const refusedSpec = (
  message: string,
  file: string,
  document: SpecDocument,
  violations: readonly FieldViolation[],
): CliFailure =>
  new CliFailure({
    exitCode: exitCodes.usage,
    reason: "INVALID_ARGUMENT",
    message,
    details: violations.map(({ field, description }) =>
      violationText(file, { ...document.placeOfField(field), field, rule: description }),
    ),
  });

/** Of a file, or of standard input for `-`. */
export const readText = async ({ io }: Context, path: string, next: readonly string[] = []): Promise<string> => {
  try {
    return path === "-" ? await io.stdin() : new TextDecoder().decode(await io.readFile(path));
  } catch (error) {
    throw new CliFailure({
      exitCode: exitCodes.usage,
      reason: "NO_SPEC",
      message: `cannot read ${path}: ${error instanceof Error ? error.message : String(error)}`,
      next,
    });
  }
};

/** `path` is a file, or `-` for standard input. What the command line says in place of the file's is made by `overrides`; `next` is advice for a file that cannot be read. */
export const readSpec = async <Request>(
  context: Context,
  kind: SpecKind<Request>,
  path: string,
  overrides: (json: Readonly<Record<string, JsonValue>>) => Readonly<Record<string, JsonValue>>,
  next: readonly string[] = [],
): Promise<ReadSpec<Request>> => {
  const file = path === "-" ? "(standard input)" : path;
  const { readSpecDocument } = await import("./spec-document.ts");
  const { checkSpec } = await import("./check-spec.ts");
  const messages = await context.messages();
  const document = readSpecDocument(boundedYaml(await readText(context, path, next), file));
  const { json, violations } = checkSpec(document, messages.describe(kind.type), kind.hidden);
  if (violations.length > 0) throw badSpec(file, violations);
  const request = kind.codec.decode(messages.toBytes(kind.type, { ...json, ...overrides(json) }));
  return {
    request,
    refused: (says, found) => refusedSpec(`${file} ${says}`, file, document, found),
    async call(act) {
      try {
        return await act();
      } catch (error) {
        if (isHoldfastError(error) && error.violations.length > 0)
          throw refusedSpec(`the controller refused ${file}; nothing was written`, file, document, error.violations);
        throw error;
      }
    },
  };
};
