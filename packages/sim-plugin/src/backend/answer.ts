import type { Refusal } from "./codes.ts";
import type { Fault } from "./faults.ts";

/** What a call comes to: a response of its method, or a refusal. */
export type Answer = { readonly response: unknown } | { readonly refusal: Refusal };

/** What the backend says to a call that begins. */
export type Admission =
  /** All is done, nothing is left to do but to send it. */
  | { readonly kind: "answered"; readonly answer: Answer }
  /** The role process waits, mounts or misbehaves as told, then calls apply and close. */
  | {
      readonly kind: "open";
      readonly ticket: number;
      readonly delayMs: number;
      /** The work comes before the delay. */
      readonly worksFirst: boolean;
      readonly fault?: Fault;
      /** For block volumes, whose backing file needs a size. */
      readonly capacity: bigint;
    };

/** What became of the reply, told by the role process when a call is over. */
export interface Ending {
  readonly reply: "sent" | "dropped" | "abandoned" | "died";
  /** Given when the caller was told something else than the answer. */
  readonly refusal?: Refusal;
}
