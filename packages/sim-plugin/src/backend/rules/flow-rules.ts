import { type Call, withoutTokens } from "../call.ts";
import { sameValue } from "../ids.ts";
import { methodFacts } from "../methods.ts";
import { everyCall, type InFlight, nobodysFault, type Rule, type World } from "./rule.ts";

const laneMates = (world: World, abandoned: boolean, lane: string | undefined): InFlight | undefined =>
  lane === undefined ? undefined : world.inFlight.find((other) => other.lane === lane && other.abandoned === abandoned);

/** The storage's own: identity tokens come beside them, and are judged by themselves. */
const secretsIn = (call: Call): { readonly [key: string]: string } =>
  withoutTokens((Reflect.get(call.request, "secrets") as { [key: string]: string } | undefined) ?? {});

/** Rules on when a call may be made at all, and with whose secrets. `lane` is the calling call's own. */
export const flowRules = (lane: string | undefined): readonly Rule[] => [
  everyCall(
    "call-before-ready",
    "UNAVAILABLE",
    "While Probe says ready=false the plugin is still starting: no other service is called.",
    ({ method }, world) =>
      world.notReady && methodFacts[method].service !== "identity"
        ? `${method} while Probe answers ready=false`
        : undefined,
  ),
  everyCall(
    "unimplemented-repeated",
    "UNIMPLEMENTED",
    "A call answered UNIMPLEMENTED is not made again until the plugin's capabilities were read again.",
    ({ method }, world) =>
      world.knownUnimplemented ? `${method} again after UNIMPLEMENTED, capabilities not read again` : undefined,
  ),
  everyCall(
    "second-call-in-flight",
    "ABORTED",
    "There is at most one call in flight for a volume: the orchestrator sees to that.",
    ({ method }, world) => {
      const other = laneMates(world, false, lane);
      return other === undefined
        ? undefined
        : `${method} while ${other.method} (call ${other.seq}) has no answer yet, both for ${lane}`;
    },
  ),
  nobodysFault(
    everyCall(
      "still-running",
      "ABORTED",
      "Work goes on after its caller gave up; until it ends the volume is busy.",
      ({ method }, world) => {
        const other = laneMates(world, true, lane);
        return other === undefined
          ? undefined
          : `${method}: ${other.method} (call ${other.seq}) is still running for ${lane}`;
      },
    ),
  ),
  everyCall(
    "secrets-missing",
    "UNAUTHENTICATED",
    "The secrets an operation needs travel with every call of it.",
    (call, world) => {
      const wanted = world.secretsOf(call.method);
      return wanted !== undefined && Object.keys(secretsIn(call)).length === 0
        ? `${call.method} came without secrets`
        : undefined;
    },
  ),
  nobodysFault(
    everyCall("secrets-wrong", "UNAUTHENTICATED", "Credentials that the storage does not accept.", (call, world) => {
      const wanted = world.secretsOf(call.method);
      const given = secretsIn(call);
      return wanted !== undefined && Object.keys(given).length > 0 && !sameValue(wanted, given)
        ? `${call.method}: these secrets are not accepted`
        : undefined;
    }),
  ),
];
