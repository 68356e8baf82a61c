/**
 * What is known of a command that did not answer.
 * - `not-sent`: it never left this process.
 * - `refused`: Redis answered with an error before it did anything.
 * - `unknown`: it may or may not have been done, or may still be done.
 */
export type Certainty = "not-sent" | "refused" | "unknown";

export class CallFailure extends Error {
  readonly certainty: Certainty;
  /** The first word of what Redis answered, as READONLY or NOPERM; empty when it answered nothing. */
  readonly code: string;

  constructor(
    certainty: Certainty,
    message: string,
    options: { readonly code?: string; readonly cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "CallFailure";
    this.certainty = certainty;
    this.code = options.code ?? "";
  }
}

/** What to do about answers that an operator can change. */
const cures: Readonly<Record<string, string>> = {
  NOPERM: "its user lacks a right of the controller's ACL rule",
  NOAUTH: "put user and password into the address of the store",
  WRONGPASS: "correct user and password in the address of the store",
  DENIED: "give it a password, or set protected-mode no where no other program reaches it",
  OOM: "raise maxmemory of the store",
  MISCONF: "the store cannot write to its disk: see its log",
  NOREPLICAS:
    "the store takes no writes, because fewer replicas keep up with it than min-replicas-to-write wants: start them, or mend the network to them",
  READONLY: "this Redis is a replica: point the address at the master",
  LOADING: "the store is reading its data; wait",
  MASTERDOWN: "this Redis is a replica without its master",
  MOVED: "another node of its cluster serves the slot of the store",
  ASK: "the slot of the store is being moved to another node of its cluster; wait",
  TRYAGAIN: "the slot of the store is being moved to another node of its cluster; wait",
  CLUSTERDOWN: "its cluster takes nothing: look at redis-cli --cluster check",
};

/** Redis names the script in errors that came up while it ran: by then something may have been written. */
const fromInside = /script: |user_function|@user_script/;

export const callFailureOf = (error: unknown): CallFailure => {
  if (error instanceof CallFailure) return error;
  const message = error instanceof Error ? error.message : String(error);
  const name = error instanceof Error ? error.name : "";
  // Rejected by the client before it wrote anything to the socket.
  if (message.startsWith("Stream isn't writeable"))
    return new CallFailure("not-sent", "not connected", { cause: error });
  if (name !== "ReplyError") return new CallFailure("unknown", message, { cause: error });
  const code = /^[A-Z]+/.exec(message)?.[0] ?? "ERR";
  if (fromInside.test(message)) return new CallFailure("unknown", message, { code, cause: error });
  const cure = cures[code];
  return new CallFailure("refused", cure === undefined ? message : `${message} (${cure})`, { code, cause: error });
};

export const isMissingFunction = (error: unknown): boolean =>
  error instanceof CallFailure && /Function not found/i.test(error.message);

/** Not allowed for this user, or not there at all, as CONFIG is with most who sell Redis. */
export const isForbidden = (error: unknown): boolean =>
  error instanceof CallFailure &&
  (error.code === "NOPERM" || /unknown (?:sub)?command|can't run this command/i.test(error.message));
