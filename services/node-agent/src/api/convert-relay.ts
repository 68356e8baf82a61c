/** Calls of controllers to plugins of this host: messages of holdfast.internal.v1 → orders. */
import type { Vetting } from "@holdfast/model/vetting";
import { msOfDuration } from "@holdfast/model/wire-duration";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type {
  CallOrder,
  QuiesceRequest,
  RelayRequest,
  RelayStreamRequest,
} from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import type { CallContext } from "@holdfast/shared/grpc/call-context";
import { vettingOf } from "./convert-vetting.ts";
import { safeNumber } from "./convert-words.ts";

export interface RelayOrder {
  readonly plugin: string;
  readonly method: string;
  readonly request: Uint8Array;
  /** 0: as the method's policy says. */
  readonly deadlineMs: number;
  readonly vetting: Vetting;
  /** Of calls that change something, since controllers say it. */
  readonly order?:
    | { readonly gen: number; readonly sequence: number; readonly opId: string; readonly knownAs: readonly string[] }
    | undefined;
  /** The life of this agent that is meant, since controllers say it. */
  readonly gate?: string | undefined;
}

export interface QuiesceOrder {
  readonly plugin: string;
  readonly gate: string;
  readonly subject: string;
  readonly order: { readonly gen: number; readonly sequence: number };
  readonly vetting: Vetting;
  readonly waitMs: number;
}

const maxOpId = 128;
const maxSubject = 1_024;
const maxQuiesceMs = 10_000;

/** Numbers beyond what can be counted with here would stand for one another. */
export function callOrder(order: CallOrder | undefined): RelayOrder["order"] {
  if (order === undefined) return undefined;
  const { opId, knownAs } = order;
  const [gen, sequence] = [safeNumber(order.gen), safeNumber(order.sequence)];
  if (gen < 0 || sequence < 0 || opId === "" || opId.length > maxOpId)
    throw invalidArgument([
      {
        field: "order",
        description: `has to name an operation in at most ${maxOpId} bytes, by numbers up to 2^53 - 1`,
      },
    ]);
  if (knownAs.length > 2 || knownAs.some((one) => one.length > maxSubject))
    throw invalidArgument([{ field: "order", description: `has two subjects at most, of ${maxSubject} bytes` }]);
  return { gen, sequence, opId, knownAs };
}

/** The plugin is told the caller's own time, or less if that was asked for. */
export function relayOrder(request: RelayRequest | RelayStreamRequest, context: CallContext): RelayOrder {
  const { plugin, method, deadline } = request;
  const asked = deadline === undefined ? 0 : (msOfDuration(deadline) ?? 0);
  const left = context.remainingMs();
  const deadlineMs = asked > 0 ? Math.min(asked, left) : Number.isFinite(left) ? left : 0;
  const vetting = vettingOf(request.gen, request.vettingUid, "gen");
  return { plugin, method, request: request.request, deadlineMs, vetting };
}

export function quiesceOrder(request: QuiesceRequest, context: CallContext): QuiesceOrder {
  const { node, plugin, gate, subject, wait } = request;
  const [gen, sequence] = [safeNumber(request.gen), safeNumber(request.sequence)];
  const waitMs = wait === undefined ? 0 : msOfDuration(wait);
  const violations = [
    ...Object.entries({ node, plugin, gate, subject }).flatMap(([field, value]) =>
      value === "" ? [{ field, description: "has to be named" }] : [],
    ),
    ...(subject.length > maxSubject ? [{ field: "subject", description: `has at most ${maxSubject} bytes` }] : []),
    ...Object.entries({ gen, sequence }).flatMap(([field, value]) =>
      value < 0 ? [{ field, description: "has to be from 0 to 2^53 - 1" }] : [],
    ),
    ...(waitMs === undefined || waitMs < 0 || waitMs > maxQuiesceMs
      ? [{ field: "wait", description: `has to be from 0 to ${maxQuiesceMs} ms` }]
      : []),
  ];
  if (violations.length > 0) throw invalidArgument(violations);
  const vetting = vettingOf(request.gen, request.vettingUid, "gen");
  const mostMs = Math.min(waitMs ?? 0, context.remainingMs());
  return { plugin, gate, subject, order: { gen, sequence }, vetting, waitMs: mostMs };
}
