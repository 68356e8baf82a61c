/**
 * The span of a CSI call: what the call is about, how it ended, and whether it has a span at all.
 *
 * A call within a trace always has one, and so has a call that changes something. A question outside of any trace (a probe, a look
 * at capabilities, a list) has one when it failed, when it took long, or when it is in the sample: then `holdfast.traced_because`
 * says which. A question that is in the sample has its span from the start, so that the plugin's own span comes below it.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { isBackgroundCall } from "@holdfast/shared/grpc/background-calls";
import type { SpanOptions, Tracing } from "@holdfast/shared/tracing";
import { type Attributes, type Span, SpanStatusCode } from "@opentelemetry/api";
import { type CsiMethod, methods, pathOf } from "./methods.ts";
import { type CallOutcome, type Code, codes } from "./outcome.ts";

/** What the call is about, for spans: ids only, never values. */
export interface CallSubject {
  readonly namespace?: string;
  readonly volume?: string;
  readonly claim?: string;
  readonly node?: string;
  readonly attempt?: number;
}

/** Who is called. */
export interface CallPeer {
  /** The plugin's name, as far as it is known. */
  readonly plugin: () => string;
  /** Of a call whose subject names no node: the node of the caller. */
  readonly node?: string | undefined;
  /** Which of the plugin's processes. */
  readonly instance?: string | undefined;
  /** `relay`: the transport is another hop, which makes the span of the RPC itself. */
  readonly hop?: "direct" | "relay";
}

export interface TracedCall {
  readonly signal: AbortSignal;
  readonly subject?: CallSubject | undefined;
  /** The plugin's own name of the volume, when the request has one. */
  readonly volumeId?: string | undefined;
}

export interface Answered<T> {
  readonly outcome: CallOutcome<T>;
  readonly code: Code;
}

export interface CallSpans {
  of<T>(method: CsiMethod, call: TracedCall, send: () => Promise<Answered<T>>): Promise<Answered<T>>;
}

type Because = "failed" | "slow" | "sampled";

export function createCallSpans(peer: CallPeer, { tracing, clock }: { tracing: Tracing; clock: Clock }): CallSpans {
  const { hop = "direct" } = peer;
  const prefix = hop === "relay" ? "relay " : "";
  const kind = hop === "relay" ? "internal" : "client";

  const span = <T>(
    method: CsiMethod,
    call: TracedCall,
    fn: (span: Span) => Promise<T>,
    { startTime, because }: { readonly because?: Because } & Pick<SpanOptions, "startTime"> = {},
  ): Promise<T> => {
    const attributes = attributesOf(peer, method, call);
    if (because !== undefined) attributes["holdfast.traced_because"] = because;
    return tracing.span(`${prefix}${attributes["rpc.service"]}/${method}`, { attributes, kind, startTime }, fn);
  };

  return {
    async of(method, call, send) {
      const around = async (active: Span) => {
        const answered = await send();
        endOf(active, answered);
        return answered;
      };
      if (!isBackgroundCall(pathOf(method)) || tracing.currentTraceparent() !== undefined)
        return span(method, call, around);
      if (tracing.questions.sampled()) return span(method, call, around, { because: "sampled" });
      const startTime = clock.now();
      const started = clock.monotonic();
      const answered = await send();
      const slow = clock.monotonic() - started >= tracing.questions.slowMs;
      const because = failed(answered) ? "failed" : slow ? "slow" : undefined;
      // A question that its caller gave up says nothing of the plugin.
      if (because !== undefined && !call.signal.aborted)
        await span(method, call, async (active) => endOf(active, answered), { startTime, because });
      return answered;
    },
  };
}

/** A plugin that does not offer what it is asked about has answered. */
const failed = ({ outcome, code }: Answered<unknown>): boolean =>
  outcome.outcome !== "done" && code !== "UNIMPLEMENTED";

function attributesOf(
  { plugin, instance, node: own }: CallPeer,
  method: CsiMethod,
  { subject = {}, volumeId }: TracedCall,
): Attributes {
  const attributes: Attributes = {
    "rpc.system": "grpc",
    "rpc.service": `csi.v1.${methods[method].service}`,
    "rpc.method": method,
    "csi.method": method,
    "holdfast.plugin": plugin(),
  };
  const { namespace, volume, claim, node = own, attempt } = subject;
  // Both in one, as everywhere: who searches for a volume finds all that was done for it.
  if (volume !== undefined) attributes["holdfast.volume"] = namespace === undefined ? volume : `${namespace}/${volume}`;
  if (volumeId !== undefined && volumeId !== "") attributes["csi.volume_id"] = volumeId;
  if (claim !== undefined) attributes["holdfast.claim"] = claim;
  if (node !== undefined) attributes["holdfast.node"] = node;
  if (instance !== undefined) attributes["holdfast.instance"] = instance;
  if (attempt !== undefined) attributes["holdfast.attempt"] = attempt;
  return attributes;
}

function endOf(span: Span, { outcome, code }: Answered<unknown>): void {
  span.setAttribute("rpc.grpc.status_code", codes.indexOf(code));
  span.setAttribute("csi.code", code);
  span.setAttribute("holdfast.outcome", outcome.outcome);
  // The text stays out: it may hold what a plugin said.
  if (outcome.outcome === "done") return;
  span.setAttribute("error.type", code);
  span.setStatus({ code: SpanStatusCode.ERROR, message: code });
}
