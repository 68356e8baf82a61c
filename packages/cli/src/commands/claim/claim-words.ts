import { type Claim, ClaimState } from "@holdfast/shared/gen/holdfast/v1/claim";
import type { Column } from "../../frame/tables.ts";
import { enumWords } from "../../words/enum-words.ts";
import { ago } from "../../words/moment.ts";
import { callText, lastErrorText } from "../resource-words.ts";

export const claimStates = enumWords<ClaimState>(ClaimState, "CLAIM_STATE_");

/** As `claim release` takes it. */
export const claimName = ({ workload, alias }: Claim): string => `${workload} ${alias}`;

export const claimColumns = (now: number): readonly Column<Claim>[] => [
  { title: "WORKLOAD", of: ({ workload }) => workload },
  { title: "ALIAS", of: ({ alias }) => alias },
  { title: "VOLUME", of: ({ namespace, volume }) => `${namespace}/${volume}` },
  { title: "NODE", of: ({ node }) => node },
  {
    title: "STATE",
    of: (claim) =>
      [
        claimStates.of(claim.state),
        ...(claim.blocked === undefined ? [] : ["BLOCKED"]),
        ...(claim.degradedSince === undefined ? [] : ["DEGRADED"]),
      ].join(" "),
  },
  { title: "SINCE", of: ({ stateSince }) => ago(stateSince, now) },
  {
    title: "DETAIL",
    of: (claim) =>
      claim.blocked?.message ||
      claim.waitingFor ||
      callText(claim.call, now) ||
      claim.hostPath ||
      (claim.state === ClaimState.CLAIM_STATE_ACTIVE ? "" : lastErrorText(claim.lastError)) ||
      "-",
  },
];
