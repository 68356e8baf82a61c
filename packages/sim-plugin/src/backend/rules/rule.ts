import type { Call, PathFacts, Subject } from "../call.ts";
import type { Capability } from "../capabilities.ts";
import type { CodeName } from "../codes.ts";
import type { IdKind } from "../ids.ts";
import type { SimState } from "../model.ts";
import type { Method, Requests } from "../rpc.ts";

/** What a rule may look at besides the request. */
export interface World {
  readonly state: SimState;
  readonly subject: Subject;
  /** The node of the calling instance. */
  readonly node?: string;
  readonly has: (capability: Capability) => boolean;
  /** Secrets the plugin wants, by method: exactly these. */
  readonly secretsOf: (method: Method) => { readonly [key: string]: string } | undefined;
  /** A capability has to be one that CreateVolume carried, in all its fields. */
  readonly comparesCapabilities: boolean;
  /** Other calls not yet answered; `abandoned` when their caller has given up. */
  readonly inFlight: readonly InFlight[];
  readonly paths?: PathFacts;
  readonly notReady: boolean;
  /** The instance answered this call UNIMPLEMENTED, and nobody has asked for its capabilities since. */
  readonly knownUnimplemented: boolean;
  /** The id that a thing of this name has or would have. */
  readonly idOf: (kind: IdKind, name: string) => string;
}

export interface InFlight {
  readonly seq: number;
  readonly method: Method;
  readonly request: object;
  readonly instance: string;
  readonly lane?: string;
  readonly volume?: string;
  readonly node?: string;
  readonly abandoned: boolean;
  /** The process that sent it is dead. */
  readonly orphaned: boolean;
}

type Checks = { readonly [M in Method]?: (request: Requests[M], world: World) => string | undefined };

/** One row of policy: what is forbidden, what the plugin answers, and what the spec says in our words. */
export interface Rule {
  readonly id: string;
  readonly code: CodeName;
  readonly spec: string;
  /** "caller": the orchestrator broke the spec, recorded as a violation. "nobody": a refusal that may happen to anyone. */
  readonly blame: "caller" | "nobody";
  readonly checks: Checks;
  /** For rules that hold for every call alike. */
  readonly every?: (call: Call, world: World) => string | undefined;
}

export interface Finding {
  readonly rule: Rule;
  readonly message: string;
}

export const rule = (id: string, code: CodeName, spec: string, checks: Checks): Rule => ({
  id,
  code,
  spec,
  blame: "caller",
  checks,
});

export const everyCall = (
  id: string,
  code: CodeName,
  spec: string,
  every: (call: Call, world: World) => string | undefined,
): Rule => ({ id, code, spec, blame: "caller", checks: {}, every });

export const nobodysFault = (row: Rule): Rule => ({ ...row, blame: "nobody" });

/** All findings of one chapter of rules. */
export const findingsOf = (rules: readonly Rule[], call: Call, world: World): Finding[] =>
  rules.flatMap((one) => {
    // The union of calls cannot be tied to the mapped checks by the compiler; method and request belong together by Call.
    const check = one.checks[call.method] as ((request: unknown, world: World) => string | undefined) | undefined;
    const message = one.every?.(call, world) ?? check?.(call.request, world);
    return message === undefined ? [] : [{ rule: one, message }];
  });
