import type { Subject } from "./call.ts";
import type { CodeName } from "./codes.ts";
import type { Method } from "./rpc.ts";

/** A fault is data: which calls it meets, how often, and what becomes of them. One call meets one fault. */
export interface Fault {
  readonly method: Method | "*";
  readonly match?: { readonly volume?: string; readonly node?: string; readonly instance?: string };
  /** How many calls it meets; 1 unless told. */
  readonly times?: number | "always";
  /** Calls to let pass first. */
  readonly skip?: number;
  /** Whether the work is done before the fault shows; "before" unless told. dropReply always does the work. */
  readonly when?: "before" | "after";
  readonly code?: CodeName;
  readonly message?: string;
  /** Never answers; the call is over when its caller gives up. */
  readonly hang?: boolean;
  /** Takes so long; goes on working although the caller has given up, as real drivers do. */
  readonly hangMs?: number;
  /** Does the work, then cuts the caller's connection instead of answering. */
  readonly dropReply?: boolean;
  /** The role process dies. */
  readonly die?: "before" | "after";
  /** Answers OK without having touched the host: the mount is not there, or has stayed. */
  readonly lie?: boolean;
  /** Probe answers ready=false for ever, or for so many milliseconds since it was first asked. */
  readonly neverReady?: boolean;
  readonly notReadyFor?: number;
  readonly malformed?: Malformation;
}

export type Malformation =
  | "empty-reply"
  | "missing-id"
  | "oversize-id"
  | "control-characters-in-id"
  | "oversize-context"
  | "negative-capacity"
  | "zero-capacity"
  | "unknown-capability"
  | "foreign-node-id"
  | "oversize-message"
  /** ValidateVolumeCapabilities says neither yes nor no. */
  | "nothing-confirmed"
  /** It says yes like a plugin that is older than volume_mount_group and mutable_parameters. */
  | "old-confirmation";

interface Armed {
  readonly fault: Fault;
  met: number;
  firstAt?: number;
}

export interface FaultBook {
  set(faults: readonly Fault[]): void;
  add(fault: Fault): void;
  list(): readonly { readonly fault: Fault; readonly met: number }[];
  /** The fault this call meets, which thereby counts as met. */
  take(method: Method, subject: Subject, instance: string): Fault | undefined;
  /** Whether Probe would say so now; asking does not count. */
  notReady(): boolean;
}

const readiness = (fault: Fault): boolean => fault.neverReady === true || fault.notReadyFor !== undefined;

export const createFaultBook = (now: () => number): FaultBook => {
  let armed: Armed[] = [];

  const over = (one: Armed): boolean =>
    one.fault.notReadyFor !== undefined && one.firstAt !== undefined && now() - one.firstAt >= one.fault.notReadyFor;

  const meets = ({ fault }: Armed, method: Method, subject: Subject, instance: string): boolean =>
    (fault.method === "*" || fault.method === method) &&
    (fault.match?.volume === undefined ||
      fault.match.volume === subject.volume ||
      fault.match.volume === subject.name) &&
    (fault.match?.node === undefined || fault.match.node === subject.node) &&
    (fault.match?.instance === undefined || fault.match.instance === instance);

  return {
    set: (faults) => {
      armed = faults.map((fault) => ({ fault, met: 0 }));
    },
    add: (fault) => {
      armed.push({ fault, met: 0 });
    },
    list: () => armed.map(({ fault, met }) => ({ fault, met })),
    take: (method, subject, instance) => {
      for (const one of armed) {
        if (!meets(one, method, subject, instance)) continue;
        if (readiness(one.fault)) {
          one.firstAt ??= now();
          if (over(one)) continue;
          one.met += 1;
          return one.fault;
        }
        const times = one.fault.times ?? 1;
        const skip = one.fault.skip ?? 0;
        if (times !== "always" && one.met >= skip + times) continue;
        one.met += 1;
        if (one.met > skip) return one.fault;
      }
      return undefined;
    },
    notReady: () => armed.some((one) => readiness(one.fault) && !over(one)),
  };
};
