/** Around each call of a service that has acts: the word of it is kept before the handler is asked (AA1), and of how it ended after. */
import { traceIdOf } from "@holdfast/model/trace-id";
import { statusOf } from "@holdfast/shared/errors/grpc-status";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { CallContext, CallExtension } from "@holdfast/shared/grpc/call-context";
import { formatIdentity } from "@holdfast/shared/grpc/identity";
import type { CallMiddleware } from "@holdfast/shared/grpc/server";
import type { Tracing } from "@holdfast/shared/tracing";
import { type ServerMiddlewareCall, Status } from "nice-grpc";
import type { ActAudit, BegunAct } from "../../audit/act-audit.ts";
import { type AnyAuditedRow, auditedMethods } from "./audited-methods.ts";

export interface AuditMiddlewareDeps {
  readonly acts: Pick<ActAudit, "begin">;
  readonly tracing: Pick<Tracing, "currentTraceparent">;
}

export interface ServedService {
  readonly fullName: string;
  readonly methods: Readonly<Record<string, { readonly name: string }>>;
}

const failureOf = (error: unknown) => ({
  code: Status[statusOf(error)] ?? "UNKNOWN",
  error: isHoldfastError(error) ? error.reason : undefined,
});

type ActOutcome = Parameters<BegunAct["end"]>[0];

const done: ActOutcome = { code: "OK", error: undefined };
/** Its caller went away before the end. */
const left: ActOutcome = { code: "CANCELLED", error: undefined };

/** What surrounds the calls of a service: nothing where it has no acts. A service of which a method has no row is not served. */
export const createAuditMiddleware = ({ acts, tracing }: AuditMiddlewareDeps) => {
  const begin = (path: string, row: AnyAuditedRow, request: unknown, context: CallContext): Promise<BegunAct> =>
    acts.begin({
      verb: path.slice(path.lastIndexOf("/") + 1),
      method: path,
      who: formatIdentity(context.identity),
      serial: context.identity.certificate?.serial,
      subject: row.subject(request),
      reason: row.reason(request),
      request: context.requestId,
      traceId: traceIdOf(tracing.currentTraceparent()),
    });

  async function* eachOf<Answer>(begun: BegunAct, answers: AsyncGenerator<Answer, void>): AsyncGenerator<Answer, void> {
    let outcome: ActOutcome = left;
    try {
      for (;;) {
        const next = await begun.run(() => answers.next());
        if (next.done === true) break;
        yield next.value;
      }
      outcome = done;
    } catch (error) {
      outcome = failureOf(error);
      throw error;
    } finally {
      if (outcome === left) await answers.return();
      await begun.end(outcome);
    }
  }

  const answerOf = async <Answer>(
    begun: BegunAct,
    { result }: AnyAuditedRow,
    answer: () => Promise<Answer>,
  ): Promise<Answer> => {
    let outcome: ActOutcome = done;
    try {
      const given = await begun.run(answer);
      if (result !== undefined) outcome = { ...done, result: result(given) };
      return given;
    } catch (error) {
      outcome = failureOf(error);
      throw error;
    } finally {
      await begun.end(outcome);
    }
  };

  const audited = (rows: ReadonlyMap<string, AnyAuditedRow | undefined>): CallMiddleware =>
    async function* audit<Request, Response>(
      call: ServerMiddlewareCall<Request, Response, CallExtension>,
      context: CallContext,
    ) {
      const { path } = call.method;
      const row = rows.get(path);
      if (row === undefined || !row.acts(call.request)) return yield* call.next(call.request as Request, context);
      const begun = await begin(path, row, call.request, context);
      if (call.responseStream) return yield* eachOf(begun, call.next(call.request as Request, context));
      return await answerOf(begun, row, async () => {
        const { value } = await call.next(call.request as Request, context).next();
        return value as Response;
      });
    };

  return ({ fullName, methods }: ServedService): readonly CallMiddleware[] => {
    const rows = new Map<string, AnyAuditedRow | undefined>();
    for (const { name } of Object.values(methods)) {
      const path = `/${fullName}/${name}`;
      if (!auditedMethods.has(path)) throw new Error(`${path} has no row in the table of audited methods`);
      rows.set(path, auditedMethods.get(path));
    }
    return [...rows.values()].some((row) => row !== undefined) ? [audited(rows)] : [];
  };
};
