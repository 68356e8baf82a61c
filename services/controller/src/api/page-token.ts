import { createHash } from "node:crypto";
import { type CallerScope, everything, isBounded } from "../domain/access/caller-scope.ts";
import { limits } from "../domain/limits.ts";
import type { Checks } from "./check-request.ts";

/** Opaque to callers: where to go on, and for which question. */
interface Token {
  readonly c: string;
  readonly q: string;
}

const defaultPage = 100;

/** A token fits only the question that it was given for, in the scope of who asked it; its digest says which. */
export const questionOf = (rpc: string, filter: unknown, scope: CallerScope = everything): string => {
  const asked = isBounded(scope) ? [rpc, filter, scope.namespaces, scope.plugins] : [rpc, filter];
  const text = JSON.stringify(asked, (_key, value: unknown) => (typeof value === "bigint" ? value.toString() : value));
  return createHash("sha256").update(text).digest("base64url").slice(0, 16);
};

export const writeToken = (cursor: string, question: string): string =>
  Buffer.from(JSON.stringify({ c: cursor, q: question } satisfies Token)).toString("base64url");

/** The cursor, undefined for no token. */
export const readToken = (field: string, token: string, question: string, checks: Checks): string | undefined => {
  if (token === "") return undefined;
  const read = parse(token);
  if (read === undefined) checks.complain(field, "is no token of this server; begin with an empty one");
  else if (read.q !== question) checks.complain(field, "was given for another filter; begin with an empty one");
  return read?.c;
};

const parse = (token: string): Token | undefined => {
  if (token.length > 4096) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(token, "base64url").toString("utf8"));
    if (typeof value !== "object" || value === null || !("c" in value) || !("q" in value)) return undefined;
    return typeof value.c === "string" && typeof value.q === "string" ? { c: value.c, q: value.q } : undefined;
  } catch {
    return undefined;
  }
};

export interface PageRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

export const pageFrom = (
  { pageSize, pageToken }: PageRequest,
  question: string,
  checks: Checks,
): { readonly size: number; readonly after: string | undefined } => {
  if (pageSize < 0 || pageSize > limits.pageSize) checks.complain("page_size", `has to be 0 to ${limits.pageSize}`);
  const after = readToken("page_token", pageToken, question, checks);
  return { size: pageSize <= 0 ? defaultPage : Math.min(pageSize, limits.pageSize), after };
};

export const nextPageToken = (next: string | undefined, question: string): string =>
  next === undefined ? "" : writeToken(next, question);
