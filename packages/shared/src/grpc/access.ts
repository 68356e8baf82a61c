/**
 * Who may call what. A server has a table with one row for each method that it serves, and asks it for each call, once the caller is known.
 *
 * AC1 A method without a row is not served: adding it fails. AC2 A caller that has a role is held to the row of the method. AC3 A caller
 * without one, `anonymous` or `local`, may do everything where trust rests on the address alone: loopback and unix sockets. Where it rests
 * on certificates such a caller has no right but those of its row. AC4 Where trust rests on certificates a role without one is none.
 */
import type { CompatServiceDefinition, TsProtoServiceDefinition } from "nice-grpc";
import type { MethodDescriptor } from "nice-grpc-common";
import { HoldfastError } from "../errors/holdfast-error.ts";
import type { CallStage } from "./call-stage.ts";
import { anonymous, formatIdentity, type Identity } from "./identity.ts";

export type Role = Identity["role"];

/** What an identity rests on. */
export type Trust = "certificates" | "loopback";

export interface AccessRow<Asked, Request = never> {
  readonly roles: readonly Role[];
  /** What the request names that not every caller of these roles may name. Of a stream of requests: its first. */
  readonly asked?: (request: Request) => Asked;
}

type RequestOf<Method> = Method extends { readonly requestType: { decode(...given: never[]): infer Request } }
  ? Request
  : never;

/** One row for each method: none can be left out. */
export type AccessRowsOf<Definition extends TsProtoServiceDefinition, Asked> = {
  readonly [Method in keyof Definition["methods"]]: AccessRow<Asked, RequestOf<Definition["methods"][Method]>>;
};

/** By the path of the method. */
export type AccessRows<Asked> = ReadonlyMap<string, AccessRow<Asked>>;

export interface Access {
  /** Throws when a method of the service has no row. */
  requireRows(definition: CompatServiceDefinition): void;
  readonly stage: CallStage;
  /** Of the first message of a stream of requests, which the stage does not see. */
  admitFirst(path: string, identity: Identity, message: unknown): void;
}

export interface AccessOptions<Asked> {
  readonly trust: Trust;
  readonly rows: AccessRows<Asked>;
  /** Throws when the caller, which has one of the roles, may not name that. Without `asked` the method names nothing. */
  readonly judge: (identity: Identity, asked: Asked | undefined) => void;
}

export function accessRows<Definition extends TsProtoServiceDefinition, Asked>(
  definition: Definition,
  rows: AccessRowsOf<Definition, Asked>,
): readonly (readonly [path: string, row: AccessRow<Asked>])[] {
  const byKey: Readonly<Record<string, AccessRow<Asked>>> = rows;
  return Object.entries(definition.methods).flatMap(([key, { name }]) => {
    const row = byKey[key];
    return row === undefined ? [] : [[`/${definition.fullName}/${name}`, row] as const];
  });
}

export function createAccess<Asked>({ trust, rows, judge }: AccessOptions<Asked>): Access {
  const isFree = ({ role }: Identity): boolean => trust === "loopback" && (role === "anonymous" || role === "local"); // AC3

  const isProven = ({ role, certificate }: Identity): boolean =>
    trust === "loopback" || role === "anonymous" || role === "local" || certificate !== undefined;

  const admitted = (path: string, identity: Identity, message: () => unknown): void => {
    if (isFree(identity)) return;
    const row = rows.get(path);
    if (!isProven(identity)) throw notFor(path, anonymous, []); // AC4
    if (row === undefined || !row.roles.includes(identity.role)) throw notFor(path, identity, row?.roles ?? []); // AC2
    const asked = row.asked as ((request: unknown) => Asked) | undefined;
    const given = message();
    judge(identity, given === undefined ? undefined : asked?.(given));
  };

  return {
    requireRows(definition) {
      const methods = "methods" in definition ? definition.methods : {};
      for (const { name } of Object.values(methods as TsProtoServiceDefinition["methods"])) {
        const path = `/${(definition as TsProtoServiceDefinition).fullName}/${name}`;
        if (!rows.has(path)) throw new Error(`${path} has no row in the table of who may call it`); // AC1
      }
    },
    stage({ path, requestStream }: MethodDescriptor, { identity }, request) {
      admitted(path, identity, () => (requestStream ? undefined : request));
      return undefined;
    },
    admitFirst: (path, identity, message) => admitted(path, identity, () => message),
  };
}

function notFor(path: string, identity: Identity, roles: readonly Role[]): HoldfastError {
  const method = path.slice(1);
  if (identity.role === "anonymous")
    return new HoldfastError({
      kind: "unauthenticated",
      reason: "IDENTITY_REQUIRED",
      message: `${method} is called with a certificate of this installation, and the call came with none; see docs/security.md`,
      metadata: { method },
    });
  return permissionDenied(
    `${formatIdentity(identity)} may not call ${method}, which is for ${roles.length === 0 ? "no role" : `the role ${roles.join(" or ")}`}`,
    { method },
  );
}

export const permissionDenied = (message: string, metadata: Readonly<Record<string, string>> = {}): HoldfastError =>
  new HoldfastError({ kind: "permission", reason: "PERMISSION_DENIED", message, metadata });
