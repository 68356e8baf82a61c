/** Which block follows from what a call was answered, by the step that was tried. */
import { type BlockedReason, blockedFor, type Subject } from "./blocked.ts";
import type { Blocked, Failure } from "./outcome.ts";

/** What was being tried when it stopped. */
export type BlockedStep =
  | "create"
  | "validate"
  | "delete"
  | "attach"
  | "detach"
  | "expand"
  | "modify"
  | "publish"
  | "release";

type CodeRow = Record<Exclude<BlockedStep, "publish" | "release">, BlockedReason>;

const everywhere = (reason: BlockedReason): CodeRow => ({
  create: reason,
  validate: reason,
  delete: reason,
  attach: reason,
  detach: reason,
  expand: reason,
  modify: reason,
});

/** What a plugin's code means when the table of codes says that repeating does not help; codes not named are PLUGIN_REFUSED. */
const byCode: Readonly<Record<string, CodeRow>> = {
  UNAUTHENTICATED: everywhere("CREDENTIALS_REFUSED"),
  PERMISSION_DENIED: everywhere("CREDENTIALS_REFUSED"),
  ALREADY_EXISTS: everywhere("INCOMPATIBLE"),
  NOT_FOUND: {
    create: "PLUGIN_REFUSED",
    validate: "NOT_AT_BACKEND",
    delete: "NOT_AT_BACKEND",
    attach: "NOT_AT_BACKEND",
    detach: "DETACH_UNPROVEN",
    expand: "NOT_AT_BACKEND",
    modify: "NOT_AT_BACKEND",
  },
  FAILED_PRECONDITION: {
    create: "PLUGIN_REFUSED",
    validate: "PLUGIN_REFUSED",
    delete: "PLUGIN_REFUSED",
    attach: "FOREIGN_ATTACHMENT",
    detach: "PLUGIN_REFUSED",
    expand: "PLUGIN_REFUSED",
    modify: "PLUGIN_REFUSED",
  },
};

/** What was found out before anything was sent, whatever the step. */
const byReason: Readonly<Record<string, BlockedReason>> = {
  NODE_REPLACED: "NODE_REPLACED",
  NODE_SILENT: "NODE_SILENT",
  NODE_PENDING: "NODE_PENDING",
  SECRET_NOT_FOUND: "CREDENTIALS_REFUSED",
  SECRETS_UNAVAILABLE: "CREDENTIALS_REFUSED",
  PLUGIN_AMBIGUOUS: "PLUGIN_AMBIGUOUS",
  PLACE_UNKNOWN: "PLACE_UNKNOWN",
  PLUGIN_HANGS: "PLUGIN_HANGS",
  CALL_MAY_BE_OPEN: "CALL_MAY_BE_OPEN",
};

const reasonFor = (step: BlockedStep, failure: Failure): BlockedReason => {
  const known = byReason[failure.reason];
  if (known !== undefined) return known;
  if (step === "publish" || step === "release") return "PERMIT_REFUSED";
  return byCode[failure.code ?? ""]?.[step] ?? "PLUGIN_REFUSED";
};

/** Says why something cannot go on by itself, what nobody has shown yet, and the command for this very case. */
export const blockedBy = (
  step: BlockedStep,
  failure: Failure,
  subject: Subject,
  previous: Blocked | undefined,
  now: number,
): Blocked => blockedFor(reasonFor(step, failure), subject, failure.message, previous, now);
