import { setTimeout as sleep } from "node:timers/promises";
import { type CallContext, ServerError, Status } from "nice-grpc-common";
import type { Admission, Answer, Ending } from "../backend/answer.ts";
import type { Call, Instance } from "../backend/call.ts";
import type { Refusal } from "../backend/codes.ts";
import type { Fault } from "../backend/faults.ts";
import type { Method, Requests, Responses } from "../backend/rpc.ts";
import type { AsyncPort } from "./async-port.ts";
import { type Host, isHandsOn } from "./host.ts";
import { malform, oversizeMessage } from "./malform.ts";
import { callHeader, deadlineHeader } from "./stream-tap.ts";
import type { createTokenCheck } from "./token-check.ts";

export interface PerformerParts {
  readonly backend: AsyncPort;
  readonly instance: Instance;
  readonly host: Host;
  /** Of a plugin that wants identity tokens. */
  readonly checkToken?: ReturnType<typeof createTokenCheck>;
  /** Cuts the caller's connection. */
  readonly cut: (call: string) => void;
  /** Ends this process, or what stands for it in a test. */
  readonly die: () => void;
}

export type Perform = <M extends Method>(
  method: M,
  request: Requests[M],
  context: CallContext,
) => Promise<Responses[M]>;

const forever = new Promise<never>(() => undefined);

const serverError = ({ code, message }: Refusal): ServerError => new ServerError(Status[code], message);

const givenUp = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

/** Takes one call through the backend, the host and the fault it met. */
export const createPerformer = ({ backend, instance, host, checkToken, cut, die }: PerformerParts): Perform => {
  const callFrom = async <M extends Method>(
    method: M,
    request: Requests[M],
    { metadata }: CallContext,
  ): Promise<Call> => {
    const bare = { instance: instance.name, method, request } as Call;
    const traceparent = metadata.get("traceparent");
    const deadline = metadata.get(deadlineHeader);
    const paths = isHandsOn(bare) ? await host.look(bare) : undefined;
    const token = bare.method === "NodePublishVolume" ? await checkToken?.(bare.request) : undefined;
    return {
      ...bare,
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(deadline === undefined ? {} : { deadlineMs: Number(deadline) }),
      ...(paths === undefined ? {} : { paths }),
      ...(token === undefined ? {} : { token }),
      ...(isHandsOn(bare) && host.work !== undefined ? { handsOn: true } : {}),
    };
  };

  /** Ends the call in the book, then answers the caller: the book is never behind what the caller knows. */
  const refuse = async (ticket: number, refusal: Refusal, ending: Ending): Promise<never> => {
    await backend.close(ticket, { ...ending, refusal });
    throw serverError(refusal);
  };

  const hang = async (ticket: number, signal: AbortSignal): Promise<never> => {
    await givenUp(signal);
    return refuse(ticket, { code: "CANCELLED", message: "the caller gave up" }, { reply: "abandoned" });
  };

  const faultRefusal = (fault: Fault, code: NonNullable<Fault["code"]>): Refusal => ({
    code,
    message: fault.message ?? `injected ${code}`,
  });

  const misbehaveBefore = async (ticket: number, fault: Fault, signal: AbortSignal): Promise<void> => {
    if (fault.die === "before") {
      die();
      await forever;
    }
    if (fault.when === "after") return;
    if (fault.hangMs !== undefined) await sleep(fault.hangMs);
    if (fault.hang) await hang(ticket, signal);
    if (fault.code !== undefined) await refuse(ticket, faultRefusal(fault, fault.code), { reply: "sent" });
  };

  const misbehaveAfter = async (ticket: number, fault: Fault, context: CallContext): Promise<void> => {
    if (fault.die === "after") {
      die();
      await forever;
    }
    if (fault.dropReply) {
      await backend.close(ticket, { reply: "dropped" });
      cut(context.metadata.get(callHeader) ?? "");
      throw serverError({ code: "UNAVAILABLE", message: "the reply was dropped" });
    }
    if (fault.malformed === "oversize-message")
      await refuse(ticket, { code: "INTERNAL", message: oversizeMessage }, { reply: "sent" });
    if (fault.when !== "after") return;
    if (fault.hangMs !== undefined) await sleep(fault.hangMs);
    if (fault.hang) await hang(ticket, context.signal);
    if (fault.code !== undefined) await refuse(ticket, faultRefusal(fault, fault.code), { reply: "sent" });
  };

  const unwrap = (answer: Answer): unknown => {
    if ("refusal" in answer) throw serverError(answer.refusal);
    return answer.response;
  };

  const finish = async (
    call: Call,
    admission: Admission & { kind: "open" },
    context: CallContext,
  ): Promise<unknown> => {
    const { ticket, fault, delayMs, worksFirst, capacity } = admission;
    // A real plugin goes on working when its caller has gone, so nothing here is cut short by the signal.
    if (delayMs > 0 && !worksFirst) await sleep(delayMs);
    if (fault?.neverReady || fault?.notReadyFor !== undefined) {
      await backend.apply(ticket);
      await backend.close(ticket, { reply: "sent" });
      return { ready: false };
    }
    if (fault !== undefined) await misbehaveBefore(ticket, fault, context.signal);
    if (isHandsOn(call) && host.work !== undefined && !fault?.lie) {
      const trouble = await host.work(call, capacity).then(
        () => undefined,
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      );
      if (trouble !== undefined) await refuse(ticket, { code: "INTERNAL", message: trouble }, { reply: "sent" });
    }
    const answer = await backend.apply(ticket);
    if (delayMs > 0 && worksFirst) await sleep(delayMs);
    if (fault !== undefined && "response" in answer) await misbehaveAfter(ticket, fault, context);
    await backend.close(ticket, { reply: "sent" });
    const response = unwrap(answer);
    return fault?.malformed === undefined ? response : malform(call.method, response, fault.malformed);
  };

  return async (method, request, context) => {
    const call = await callFrom(method, request, context);
    const admission = await backend.begin(call);
    // The backend answers with the response of the very method it was asked for.
    if (admission.kind === "answered") return unwrap(admission.answer) as Responses[typeof method];
    const giveUp = (): void => void backend.abandon(admission.ticket);
    if (context.signal.aborted) giveUp();
    context.signal.addEventListener("abort", giveUp, { once: true });
    try {
      return (await finish(call, admission, context)) as Responses[typeof method];
    } finally {
      context.signal.removeEventListener("abort", giveUp);
    }
  };
};
