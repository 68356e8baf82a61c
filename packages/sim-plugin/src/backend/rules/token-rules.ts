import { type Call, tokensKey } from "../call.ts";
import { everyCall, type Rule } from "./rule.ts";

const maps = ["volumeContext", "publishContext"] as const;

const inContext = ({ request }: Call): boolean =>
  maps.some((field) => {
    const map: unknown = Reflect.get(request, field);
    return typeof map === "object" && map !== null && Object.hasOwn(map, tokensKey);
  });

/** Identity tokens, as KEP-5538 has them. */
export const tokenRules: readonly Rule[] = [
  everyCall(
    "token-refused",
    "UNAUTHENTICATED",
    "A plugin that wants identity tokens gets with each NodePublish one that is good for its audience.",
    ({ token }) => token?.wrong,
  ),
  everyCall(
    "token-in-context",
    "INVALID_ARGUMENT",
    "Identity tokens are secrets: they stand in volume_context for a plugin alone that is too old to look elsewhere.",
    (call) =>
      inContext(call) && !(call.method === "NodePublishVolume" && call.token?.old === true)
        ? `${call.method} has tokens in its context`
        : undefined,
  ),
];
