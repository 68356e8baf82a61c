import type { Call, Role } from "./call.ts";
import type { CodeName } from "./codes.ts";
import { hashOf } from "./ids.ts";
import type { Method } from "./rpc.ts";

/** One line of the plugin's book. Sequence numbers come from one counter, for beginnings and ends alike. */
export interface CallRecord {
  readonly seq: number;
  readonly at: string;
  readonly instance: string;
  readonly role: Role;
  readonly method: Method;
  readonly volume?: string;
  readonly node?: string;
  readonly name?: string;
  readonly target?: string;
  /** The request with each secret map replaced by SecretsSeen. */
  readonly request: unknown;
  readonly traceparent?: string;
  readonly deadlineMs?: number;
  /** What the identity token said that came with it, when the plugin has verified it. */
  readonly token?: { readonly [name: string]: unknown };
  /** Ids of the rules that the call broke. */
  readonly violations: readonly string[];
  /** From here on absent while the call is in flight. */
  readonly endSeq?: number;
  readonly endedAt?: string;
  /** What the caller was told; with `reply` other than "sent" what it would have been told. */
  readonly code?: CodeName;
  readonly message?: string;
  readonly reply?: "sent" | "dropped" | "abandoned" | "died";
  /** Whether the plugin's state took the call in. */
  readonly done: boolean;
  /** The fault it met, by its most telling word. */
  readonly fault?: string;
}

export interface Violation {
  readonly rule: string;
  readonly spec: string;
  readonly message: string;
  readonly seq: number;
  readonly method: Method;
  readonly instance: string;
  readonly volume?: string;
  readonly node?: string;
}

/** Secrets never enter the book; that they came, and whether they were the same, does. */
export interface SecretsSeen {
  readonly keys: readonly string[];
  readonly hash: string;
}

export const requestSummary = (call: Call): unknown => {
  const secrets: unknown = Reflect.get(call.request, "secrets");
  if (typeof secrets !== "object" || secrets === null) return call.request;
  const seen: SecretsSeen = { keys: Object.keys(secrets).sort(), hash: hashOf(secrets) };
  return { ...call.request, secrets: seen };
};
