import { CliFailure } from "../../frame/cli-failure.ts";
import type { Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { nearNames } from "../../words/near-names.ts";
import { pageSize } from "../all-pages.ts";

/** Names are a help: without the right to list, or with a controller that is slow, there is none. */
const patienceMs = 5_000;

const workloadsNow = async ({ clients, settings }: Context): Promise<readonly string[]> => {
  const request = { filter: { namespace: settings.namespace }, pageSize, pageToken: "" };
  try {
    const { claims } = await clients.claims.listClaims(request, { deadlineMs: patienceMs });
    return claims.map(({ workload }) => workload);
  } catch {
    return [];
  }
};

/** A release that found no claim, and none that is over: done more than a week ago, or a name that was meant to be another. A person has to look which. */
export const noClaimFailure = async (context: Context, workload: string, input: Input): Promise<CliFailure> => {
  const { namespace } = context.settings;
  const only = [...input.args("aliases"), ...input.list("uid").map((uid) => `uid ${uid}`)];
  const known = await workloadsNow(context);
  const near = known.includes(workload) ? [] : nearNames(workload, known);
  return new CliFailure({
    exitCode: exitCodes.notFound,
    reason: "CLAIM_NOT_FOUND",
    message: `workload ${namespace}/${workload} has no claim${only.length === 0 ? "" : ` under ${only.join(", ")}`}; nothing was released`,
    next: [
      ...near.map((name) => `did you mean: holdfast claim release ${name} --namespace ${namespace}`),
      `holdfast claim list --namespace ${namespace}    shows the claims that there are`,
    ],
  });
};
